"""Loads configs from files and overrides, and writes them back as plain values."""

import dataclasses
import os
from collections.abc import Mapping, Sequence, Set
from typing import Any

import yaml

from memattn import attention, reading, shipped
from memattn.config.schema import Origin, build, keys_named, keys_of_other_kinds, parse, sections_of
from memattn.config.sections import Config, ModelConfig
from memattn.errors import ConfigError, DataError, abbreviated, short
from memattn.options import hints
from memattn.plain_values import plain


def load(path: str, overrides: Sequence[str]) -> Config:
    """Reads a YAML file, applies overrides and checks every value.

    Args:
      path: path of the file, or the name of a shipped config, such as copy/small. The file's key `base` may name
        another config whose values it changes: by a path relative to the file, or a shipped config by its name.
      overrides: dotted keys with YAML values, such as "model.units=128".

    Raises:
      ConfigError: a file cannot be read, or a value cannot be used.
    """
    path = shipped.find(path)
    origin = Origin(path)
    return _overridden(_read(path, origin), overrides, origin)


def from_dict(tree: Mapping, overrides: Sequence[str] = ()) -> Config:
    """Returns the config of plain values, as `to_dict` returns them, with overrides such as "model.units=128".

    Absent keys get their defaults.

    Raises:
      ConfigError: a value cannot be used.
    """
    return _overridden(tree, overrides, Origin("config"))


def check_overrides(overrides: Sequence[str]) -> None:
    """Raises ConfigError if a Python program gives one override in place of a list."""
    if isinstance(overrides, str):
        raise ConfigError(f"overrides: must be a list of strings, not {overrides!r:.80}")


def _overridden(tree: Mapping, overrides: Sequence[str], origin: Origin) -> Config:
    """Returns the config of plain values with overrides, each value checked."""
    changes = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {short(override)}: write --set key=value, e.g. --set model.units=128")
        changes[key] = parse(text, Origin(f"--set {short(key)}"))
        origin.replace(key, f"--set {short(override)}")
    return checked(apply_changes(tree, changes, origin), origin)


def checked(tree: Mapping, origin: Origin) -> Config:
    """Returns the config of plain values, each checked, with defaults for absent keys.

    Raises:
      ConfigError: a key is unknown, or a value cannot be used; the message names the place of the key.
    """
    for name in tree:
        if name not in hints(Config) and (keys := [*keys_named(str(name), Config), *_keys_of_mechanisms(name)]):
            raise origin.error(name, f"unknown key; did you mean {' or '.join(keys)}?")
    return build(Config, {"data": {}, **tree}, "", origin)


def _keys_of_mechanisms(option: Any) -> list[str]:
    """Returns a list with the dotted key of an option of a registered mechanism; [] if no mechanism has it."""
    has_option = any(option in attention.keys(mechanism) for mechanism in attention.MECHANISMS.values())
    return [f"model.attention.{option}"] if has_option else []


def _read(path: str, origin: Origin) -> dict:
    """Returns the values of a file merged into those of its base.

    Args:
      path: path of the file.
      origin: receives the place of each key.
    """
    try:
        text = reading.text(path)
    except OSError as error:
        advice = shipped.advice(path) if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"{path}: cannot read the config: {error.strerror}{advice}") from error
    except DataError as error:
        raise ConfigError(str(error)) from error
    origin_of_file = Origin(path)
    tree = parse(text, origin_of_file)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: a config is a mapping with the keys data, model, training, decoding, sweep")
    base = tree.pop("base", None)
    if base is not None:
        tree = _merged(_read(_base_path(base, path, origin_of_file), origin), tree)
    origin.lines.update(origin_of_file.lines)
    return tree


def _base_path(base: Any, path: str, origin: Origin) -> str:
    """Returns the path of the file that a config names as its `base`."""
    if not isinstance(base, str):
        raise origin.error("base", f"expected the path of another config, not {abbreviated(base)}")
    relative = os.path.normpath(os.path.join(os.path.dirname(path), base))
    base_path = relative if os.path.isfile(relative) else shipped.path_of(base)
    if base_path is None:
        raise origin.error("base", f"no such file: {short(relative)}{shipped.advice(base)}")
    return base_path


def _merged(base: Mapping, changes: Mapping, key: str = "") -> dict:
    """Returns the mapping of a dotted key, with changes merged into `base` key by key.

    A sweep, and the options of another mechanism, are replaced as a whole. A new `model.kind` drops the keys that only
    other kinds have. A new `data.task` drops `data.copy`, and the reverse.
    """
    name = base.get("name", attention.DEFAULT)
    changes_mechanism = key == "model.attention" and changes.get("name", name) != name
    if changes_mechanism or key == "sweep":
        return dict(changes)
    merged = dict(base)
    if key == "model" and "kind" in changes:
        _drop_other_kinds(merged, changes["kind"])
    if key == "data":
        _drop_replaced_task(merged, {name for name, value in changes.items() if value is not None})
    for name, value in changes.items():
        are_mappings = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _merged(merged[name], value, f"{key}.{name}".lstrip(".")) if are_mappings else value
    return merged


def _drop_other_kinds(model: dict, kind: Any) -> None:
    """Removes the keys of `model` that only other kinds have."""
    for name in keys_of_other_kinds(sections_of(ModelConfig), kind) & model.keys():
        del model[name]


def _drop_replaced_task(data: dict, given: Set[str]) -> None:
    """Removes `copy` from the mapping `data` if `task` is among the keys that are given now, and the reverse."""
    for task, replaced in (("copy", "task"), ("task", "copy")):
        if task in given and replaced not in given:
            data.pop(replaced, None)


def apply_changes(tree: Mapping, changes: Mapping[str, Any], origin: Origin | None = None) -> dict:
    """Returns a copy of plain values with dotted keys set.

    A new `model.attention.name` drops the options of the former mechanism, a new `model.kind` the keys that only other
    kinds have, and a new `data.task` drops `data.copy`, or the reverse. Raises ConfigError for a key below a value that
    is not a mapping.
    """
    origin = origin or Origin("sweep")
    changed: dict = plain(tree)
    for key in sorted(changes, key=lambda key: (key.count("."), not key.endswith((".name", ".kind")))):
        *parents, last = key.split(".")
        node = changed
        for depth, parent in enumerate(parents):
            if node.get(parent) is None:
                node[parent] = {}
            node = node[parent]
            if not isinstance(node, dict):
                raise origin.error(key, f"{short('.'.join(parents[: depth + 1]))} is a value, not a mapping")
        if key == "model.attention.name" and node.get("name", attention.DEFAULT) != changes[key]:
            node.clear()
        if key == "model.kind":
            _drop_other_kinds(node, changes[key])
        node[last] = plain(changes[key])
    given = {key.split(".")[1] for key, value in changes.items() if key.startswith("data.") and value is not None}
    if given:
        _drop_replaced_task(changed["data"], given)
    return changed


def to_dict(config: Config) -> dict:
    """Returns a run's config as plain values, without the sweep."""
    tree = plain(dataclasses.asdict(config))
    del tree["sweep"]
    return tree


def dump(config: Config) -> str:
    """Returns a run's config as YAML, without the sweep."""
    return yaml.safe_dump(to_dict(config), sort_keys=False)
