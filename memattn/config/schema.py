"""Reads YAML into frozen dataclasses, which check their fields.

Every error names the file, the line, the dotted key, the value and what would be right.
"""

import dataclasses
import re
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import yaml

from memattn.errors import ConfigError, abbreviated, short
from memattn.options import OptionError, Options, did_you_mean, hints, listed, members, not_one_of

_Section = TypeVar("_Section", bound=Options)


class _Loader(yaml.SafeLoader):
    """A loader that reads 1e-4 as a number, as YAML 1.2 does; YAML 1.1 wants 1.0e-4."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?([0-9]+\.?|[0-9]*\.[0-9]+)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)


class Origin:
    """The file that a config came from, and the line of each of its dotted keys.

    Attributes:
      name: the file, or another source of the config, such as an override.
      lines: dotted key -> its line, such as "config.yaml:3".
    """

    def __init__(self, name: str):
        self.name = name
        self.lines: dict[str, str] = {}

    def replace(self, key: str, line: str) -> None:
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


def parse(text: str, origin: Origin) -> Any:
    """Returns the plain values of a YAML text, None for an empty one; records the line of each key.

    Raises:
      ConfigError: the text is no valid YAML, or gives a key twice.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _record_lines(node, "", origin)
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark and not origin.name.startswith("--set") else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
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


def build(section: type[_Section], tree: Any, key: str, origin: Origin) -> _Section:
    """Returns a dataclass from plain values.

    Args:
      section: the dataclass.
      tree: a mapping of field names to values; None for all defaults.
      key: dotted key of the mapping, "" for a whole config.
      origin: where the values came from.

    Raises:
      ConfigError: a key is unknown, or a value is of another type or out of range.
    """
    tree = {} if tree is None else tree
    if not isinstance(tree, Mapping):
        raise origin.error(key, f"expected a mapping, not {abbreviated(tree)}")
    fields, values = hints(section), {}
    for name in tree:
        if name not in fields:
            problems = ["unknown key", *did_you_mean(name, fields), f"known keys: {listed(fields)}"]
            raise origin.error(f"{key}.{name}".lstrip("."), "; ".join(problems))
    for name, value in tree.items():
        nested = sections_of(fields[name])
        is_null = value is None and type(None) in members(fields[name])
        is_section = nested and not is_null
        values[name] = _build_one_of(nested, value, f"{key}.{name}".lstrip("."), origin) if is_section else value
    try:
        return section(**values)
    except OptionError as error:
        raise origin.error(".".join(filter(None, [key, error.option])), error.problem) from error


def _build_one_of(sections: list[type[Options]], tree: Any, key: str, origin: Origin) -> Options:
    """Builds the dataclass that the key `kind` chooses; the first one if the key is absent."""
    by_kind = kinds(sections)
    if not by_kind or not isinstance(tree, Mapping):
        return build(sections[0], tree, key, origin)
    kind = tree.get("kind", next(iter(by_kind)))
    if kind not in list(by_kind):  # a list, as an invalid kind may not be hashable
        raise origin.error(f"{key}.kind", not_one_of(kind, by_kind))
    others = keys_of_other_kinds(sections, kind)
    for name in tree:
        if name in others:
            fitting = " or ".join(fit for fit, section in by_kind.items() if name in hints(section))
            raise origin.error(f"{key}.{name}", f"is for {key}.kind: {fitting}, not {kind}")
    return build(by_kind[kind], tree, key, origin)


def sections_of(hint: Any) -> list[type[Options]]:
    """Returns the dataclasses that a hint allows."""
    return [cast(type[Options], member) for member in members(hint) if dataclasses.is_dataclass(member)]


def kinds(sections: list[type[Options]]) -> dict[str, type[Options]]:
    """Returns dataclasses by each value that their field `kind` allows; {} if they have none."""
    return {kind: section for section in sections for kind in typing.get_args(hints(section).get("kind"))}


def keys_of_other_kinds(sections: list[type[Options]], kind: Any) -> set[str]:
    """Returns the fields that only other kinds have; none for an unknown kind."""
    by_kind = kinds(sections)
    if kind not in list(by_kind):
        return set()
    return {name for section in sections for name in hints(section)} - hints(by_kind[kind]).keys()


def keys_named(name: str, section: type[Options]) -> list[str]:
    """Returns the dotted keys, in a dataclass and the dataclasses within it, whose last part is `name`."""
    keys = [name] if name in hints(section) else []
    for field, hint in hints(section).items():
        keys += [f"{field}.{key}" for nested in sections_of(hint) for key in keys_named(name, nested)]
    return list(dict.fromkeys(keys))  # kinds of a union may share a key
