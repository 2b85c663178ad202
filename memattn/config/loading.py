"""Loads configs from YAML and overrides into dataclasses, which check their fields, and writes them back.

Every error names the file, the line, the dotted key, the value and what would be right.
"""

import dataclasses
import os
import typing
from collections.abc import Mapping, Sequence
from typing import Any, cast

import yaml

from memattn import attention, files, plain_values, shipped
from memattn.config.sections import Config, ModelConfig
from memattn.errors import ConfigError, DataError, abbreviated, short
from memattn.options import OptionError, Options, did_you_mean, hints, listed, members, not_one_of, plain


class Origin:
    """The file, override or other source that a config came from, and the line of each of its dotted keys."""

    def __init__(self, name: str):
        self.name = name
        self.lines: dict[str, str] = {}  # dotted key -> its line, such as "config.yaml:3"

    def record(self, key: str, line: str) -> None:
        """Records the line of a key and of all keys below it, and of keys above it that have no line yet."""
        self.lines = {
            known: other for known, other in self.lines.items() if not known.startswith((f"{key}.", f"{key}["))
        }
        self.lines[key] = line
        while key := key.rpartition(".")[0]:
            self.lines.setdefault(key, line)

    def error(self, key: str, problem: str) -> ConfigError:
        """Returns an error that names the line of a key, or of the nearest key above it that has a line."""
        known = key
        while known and known not in self.lines:
            known = known.rpartition(".")[0]
        line = self.lines.get(known, self.name)
        return ConfigError(f"{line}: {short(key)}: {problem}" if key else f"{line}: {problem}")


def load(path: str, overrides: Sequence[str]) -> Config:
    """Reads a YAML file, applies overrides and checks every value.

    Args:
      path: path of the file, or the name of a shipped config, such as copy/small. The file's key `base` may name
        another config whose values it changes: by a path relative to the file, or a shipped config by its name.
      overrides: dotted keys with YAML values, such as "model.units=128".

    Raises ConfigError.
    """
    path = shipped.find(path)
    origin = Origin(path)
    return _overridden(_read(path, origin), overrides, origin)


def from_dict(tree: Mapping, overrides: Sequence[str] = (), name: str = "config") -> Config:
    """Returns the config of plain values, as `to_dict` returns them, with overrides such as "model.units=128".

    Absent keys get their defaults. Raises ConfigError, which begins with `name`.
    """
    return _overridden(tree, overrides, Origin(name))


def check_overrides(overrides: Sequence[str]) -> None:
    """Raises ConfigError if a Python program gives one override in place of a list."""
    if isinstance(overrides, str):
        raise ConfigError(f"overrides: must be a list of strings, not {overrides!r:.80}")


def _overridden(tree: Mapping, overrides: Sequence[str], origin: Origin) -> Config:
    """Returns the config of plain values with overrides, each value checked, with defaults for absent keys."""
    check_overrides(overrides)
    changes = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not (key and equals and text.strip()):  # a variable of the shell that is not set leaves an empty text
            raise ConfigError(f"--set {short(override)}: write --set key=value, e.g. --set model.units=128")
        changes[key] = _parse(text, Origin(f"--set {short(key)}"))
        origin.record(key, f"--set {short(override)}")
    changed = apply_changes(tree, changes)
    for name in changed:
        if name in hints(Config):
            continue
        keys = _keys_named(str(name), Config)
        if any(name in attention.config_arguments(mechanism) for mechanism in attention.MECHANISMS.values()):
            keys.append(f"model.attention.{name}")
        if keys:
            raise origin.error(name, f"unknown key; did you mean {' or '.join(keys)}?")
    return cast(Config, _build([Config], {"data": {}, **changed}, "", origin))


def _keys_named(name: str, section: type[Options]) -> list[str]:
    """Returns the dotted keys, in a dataclass and the dataclasses within it, whose last part is `name`."""
    keys = [name] if name in hints(section) else []
    for field, hint in hints(section).items():
        keys += [f"{field}.{key}" for nested in sections_of(hint) for key in _keys_named(name, nested)]
    return list(dict.fromkeys(keys))  # kinds of a union may share a key


def _build(sections: list[type[Options]], tree: Any, key: str, origin: Origin) -> Options:
    """Returns the dataclass of a mapping of plain values, of which None is the empty one.

    Of several `sections`, the key `kind` of the mapping chooses one; without it, the first is taken. `key` is the
    dotted key of the mapping, "" for a whole config.
    """
    tree = {} if tree is None else tree
    if not isinstance(tree, Mapping):
        raise origin.error(key, f"expected a mapping, not {abbreviated(tree)}")
    kinds = {section: typing.get_args(hints(section).get("kind")) for section in sections}
    section, kind = sections[0], None
    if kinds[section]:
        kind = tree.get("kind", kinds[section][0])
        fitting = [each for each in sections if kind in kinds[each]]
        if not fitting:
            raise origin.error(f"{key}.kind", not_one_of(kind, sum(kinds.values(), ())))
        section = fitting[0]
    fields, values = hints(section), {}
    for name in tree:
        if name not in fields:
            problems = ["unknown key", *did_you_mean(name, fields), f"known keys: {listed(fields)}"]
            if other_kinds := sum((kinds[each] for each in sections if name in hints(each)), ()):
                problems = [f"is for {key}.kind: {' or '.join(other_kinds)}, not {kind}"]
            raise origin.error(f"{key}.{name}".lstrip("."), "; ".join(problems))
    for name, value in tree.items():
        nested = sections_of(fields[name])
        is_section = nested and not (value is None and type(None) in members(fields[name]))
        values[name] = _build(nested, value, f"{key}.{name}".lstrip("."), origin) if is_section else value
    try:
        return section(**values)
    except OptionError as error:
        raise origin.error(".".join(filter(None, [key, error.option])), error.problem) from error


def sections_of(hint: Any) -> list[type[Options]]:
    """Returns the dataclasses that a hint allows."""
    return [cast(type[Options], member) for member in members(hint) if dataclasses.is_dataclass(member)]


def _read(path: str, origin: Origin, above: Sequence[str] = ()) -> dict:
    """Returns the values of a file merged into those of its base; records the line of each key.

    `above` are the paths of the files that have this one as a base.
    """
    try:
        text = files.read_text(path)
    except (OSError, DataError) as error:
        raise ConfigError(f"{path}: cannot read the config: {getattr(error, 'strerror', error)}") from error
    origin_of_file = Origin(path)
    tree = _parse(text, origin_of_file)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: a config is a mapping with the keys data, model, training, decoding, sweep")
    base = tree.pop("base", None)
    if base is not None:
        files_above = [*above, path]
        below = _read(_base_path(base, files_above, origin_of_file), origin, files_above)
        tree = _merged({name: below[name] for name in below if name != "sweep" or name not in tree}, tree)
    origin.lines.update(origin_of_file.lines)
    return tree


def _base_path(base: Any, paths: Sequence[str], origin: Origin) -> str:
    """Returns the path of the file that the last of `paths` names as its `base`, which must not be one of them."""
    if not isinstance(base, str):
        raise origin.error("base", f"expected the path of another config, not {abbreviated(base)}")
    relative = os.path.normpath(os.path.join(os.path.dirname(paths[-1]), base))
    base_path = relative if os.path.isfile(relative) else shipped.path_of(base)
    if base_path is None:
        problem = f"no such file: {short(relative)}{shipped.advice(base)}"
    elif any(os.path.samefile(base_path, path) for path in paths):
        problem = f"{short(base)} is this file, or has this file as its base; name another config"
    else:
        return base_path
    raise origin.error("base", problem)


def _parse(text: str, origin: Origin) -> Any:
    """Returns the plain values of a YAML text, None for an empty one; records the line of each key.

    Raises ConfigError for invalid YAML; the error names the line, and the line where an open bracket or quote began.
    """
    try:
        loader = plain_values.Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _record_lines(node, "", origin)  # first, as construction adds merged keys to the nodes
        return loader.construct_document(node)
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError) as error:  # ValueError: of a date such as 2024-29-11
        problem, line = getattr(error, "problem", None) or str(error).splitlines()[0], ""
        mark, start = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
        if mark and not origin.name.startswith("--set"):
            line = f":{mark.line + 1}"
            if start and start.line < mark.line:
                problem += f" ({getattr(error, 'context', '')} of line {start.line + 1})"
        raise ConfigError(f"{origin.name}{line}: not valid YAML: {problem}") from error


def _record_lines(node: yaml.Node, key: str, origin: Origin) -> None:
    """Records the line of each key of a YAML node. Refuses repeated keys."""
    if isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            origin.lines[f"{key}[{i}]"] = f"{origin.name}:{item.start_mark.line + 1}"
            _record_lines(item, f"{key}[{i}]", origin)
    elif isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            dotted = f"{key}.{name.value}".lstrip(".")
            is_repeated = dotted in origin.lines
            # The line of the key, not of its value: the value may be an alias.
            origin.lines[dotted] = f"{origin.name}:{name.start_mark.line + 1}"
            if is_repeated:
                raise origin.error(dotted, "given twice")
            _record_lines(value, dotted, origin)


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
        node[last] = _Whole(plain(value)) if isinstance(value, Mapping) else value  # a copy, which longer keys change
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
        fields = {each: hints(each) for each in sections_of(ModelConfig)}
        fitting = [names for names in fields.values() if changes["kind"] in typing.get_args(names["kind"])]
        dropped = {name for names in fields.values() for name in names if fitting and name not in fitting[0]}
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
    return plain_values.dump(to_dict(config))
