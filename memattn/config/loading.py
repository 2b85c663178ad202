"""Loads configs from files and overrides, and writes them back as plain values."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from memattn import attention, files, shipped
from memattn.config.schema import Origin, build, keys_named, keys_of_other_kinds, parse, sections_of
from memattn.config.sections import Config, ModelConfig
from memattn.errors import ConfigError, DataError, abbreviated, short
from memattn.options import hints, plain


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


def _overridden(tree: Mapping, overrides: Sequence[str], origin: Origin) -> Config:
    """Returns the config of plain values with overrides, each value checked."""
    if isinstance(overrides, str):
        raise ConfigError(f"overrides: must be a list of strings, not {overrides!r:.80}")
    changes = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {short(override)}: write --set key=value, e.g. --set model.units=128")
        changes[key] = parse(text, Origin(f"--set {short(key)}"))
        origin.replace(key, f"--set {short(override)}")
    return checked(apply_changes(tree, changes), origin)


def checked(tree: Mapping, origin: Origin) -> Config:
    """Returns the config of plain values, each checked, with defaults for absent keys.

    Raises:
      ConfigError: a key is unknown, or a value cannot be used; the message names the line of the key.
    """
    for name in tree:
        if name in hints(Config):
            continue
        keys = keys_named(str(name), Config)
        if any(name in attention.keys(mechanism) for mechanism in attention.MECHANISMS.values()):
            keys.append(f"model.attention.{name}")
        if keys:
            raise origin.error(name, f"unknown key; did you mean {' or '.join(keys)}?")
    return build(Config, {"data": {}, **tree}, "", origin)


def _read(path: str, origin: Origin) -> dict:
    """Returns the values of a file merged into those of its base.

    Args:
      path: path of the file.
      origin: receives the line of each key.
    """
    try:
        text = files.read_text(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the config: {error.strerror}") from error
    except DataError as error:
        raise ConfigError(str(error)) from error
    origin_of_file = Origin(path)
    tree = parse(text, origin_of_file)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: a config is a mapping with the keys data, model, training, decoding, sweep")
    base = tree.pop("base", None)
    if base is not None:
        below = _read(_base_path(base, path, origin_of_file), origin)
        tree = _merged({name: below[name] for name in below if name != "sweep" or name not in tree}, tree)
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


class _Whole(dict):
    """A mapping that replaces another one as a whole."""


def apply_changes(tree: Mapping, changes: Mapping[str, Any]) -> dict:
    """Returns a copy of a config's plain values with dotted keys set; keys that `_without_replaced` names are gone."""
    nested: dict[str, Any] = {}
    for key in sorted(changes, key=lambda key: key.count(".")):
        *parents, last = key.split(".")
        node, value = nested, changes[key]
        for parent in parents:
            if not isinstance(node.get(parent), dict):
                node[parent] = {}
            node = node[parent]
        node[last] = _Whole(value) if isinstance(value, Mapping) else value
    return plain(_merged(tree, nested))


def _merged(base: Mapping, changes: Mapping, key: str = "") -> dict:
    """Returns the mapping of a dotted key with changes, key by key."""
    merged = _without_replaced(base, changes, key)
    for name, value in changes.items():
        is_within = (
            isinstance(value, Mapping) and not isinstance(value, _Whole) and isinstance(merged.get(name), Mapping)
        )
        merged[name] = _merged(merged[name], value, f"{key}.{name}".lstrip(".")) if is_within else value
    return merged


def _without_replaced(base: Mapping, changes: Mapping, key: str) -> dict:
    """Returns the mapping of a dotted key without what its changes replace.

    Another mechanism replaces the options of the former one, another kind of model the keys that only other kinds have,
    and `data.task` replaces `data.copy`, or the reverse.
    """
    dropped: set[str] = set()
    if key == "model.attention":
        name = base.get("name", attention.DEFAULT)
        dropped = set(base) if changes.get("name", name) != name else set()
    elif key == "model" and "kind" in changes:
        dropped = keys_of_other_kinds(sections_of(ModelConfig), changes["kind"])
    elif key == "data":
        given = {name for name, value in changes.items() if value is not None} & {"task", "copy"}
        dropped = {"task", "copy"} - given if given else set()
    return {name: value for name, value in base.items() if name not in dropped}


def to_dict(config: Config) -> dict:
    """Returns a run's config as plain values, without the sweep."""
    tree = plain(dataclasses.asdict(config))
    del tree["sweep"]
    return tree


def dump(config: Config) -> str:
    """Returns a run's config as YAML, without the sweep."""
    return yaml.safe_dump(to_dict(config), sort_keys=False)
