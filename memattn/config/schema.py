"""Reads YAML into frozen dataclasses, checked by their type hints.

Every error names the file, the line, the dotted key, the value and what would be right.
"""

import dataclasses
import difflib
import importlib
import math
import operator
import types
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import yaml

from memattn.errors import ConfigError, abbreviated, listed, short

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Section = TypeVar("_Section", bound="DataclassInstance")

_MAPPINGS = (Mapping, dict)
_SCALARS = {int: "an int", float: "a number", bool: "true or false", str: "a str"}
_COMPARED_CHARACTERS = 100  # characters of an unknown name that are compared with known names


def number(
    default: Any, *, at_least: float | None = None, above: float | None = None, below: float | None = None
) -> Any:
    """Declares a field of a dataclass with a range."""
    return dataclasses.field(default=default, metadata={"at_least": at_least, "above": above, "below": below})


def choice(default: str, registry: str) -> Any:
    """Declares a field whose values are the names in a dictionary, given as "module:dictionary".

    A new entry of the dictionary is known to configs and their documentation without further edits. The dictionary is
    imported only when a config names something else than the default, so it may be in any layer of the package.
    """
    return dataclasses.field(default=default, metadata={"registry": registry, "known": (default,)})


def choices(metadata: Mapping) -> list[str]:
    """Returns the names that a field of `choice` may have."""
    module, _, dictionary = metadata["registry"].partition(":")
    return list(getattr(importlib.import_module(module), dictionary))


class Origin:
    """The file that a config came from, and the line of each of its dotted keys.

    Attributes:
      name: the file, or another source of the config, such as an override.
      lines: dotted key -> its place, such as "config.yaml:3".
    """

    def __init__(self, name: str):
        self.name = name
        self.lines: dict[str, str] = {}

    def replace(self, key: str, place: str) -> None:
        """Records the place of a key and of all keys below it, and of keys above it that have no place yet."""
        self.lines = {known: line for known, line in self.lines.items() if not known.startswith((f"{key}.", f"{key}["))}
        self.lines[key] = place
        while key := key.rpartition(".")[0]:
            self.lines.setdefault(key, place)

    def error(self, key: str, problem: str) -> ConfigError:
        """Returns an error that names the place of a key, or of the nearest key above it that has a place."""
        known = key
        while known and known not in self.lines:
            known = known.rpartition(".")[0]
        place = self.lines.get(known, self.name)
        return ConfigError(f"{place}: {short(key)}: {problem}" if key else f"{place}: {problem}")


def parse(text: str, origin: Origin) -> Any:
    """Returns the plain values of a YAML text, None for an empty one; records the line of each key.

    Raises:
      ConfigError: the text is no valid YAML, or gives a key twice.
    """
    try:
        loader = yaml.SafeLoader(text)
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
    """Returns a dataclass from plain values, each checked by its type hint and range.

    Args:
      section: the dataclass.
      tree: a mapping of field names to values; None for all defaults.
      key: dotted key of the mapping, "" for a whole config.
      origin: where the values came from.

    Raises:
      ConfigError: a key is unknown, or a value is of another type or out of range.
    """
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise origin.error(key, f"expected a mapping, not {abbreviated(tree)}")
    hints, fields = typing.get_type_hints(section), {field.name: field for field in dataclasses.fields(section)}
    values = {}
    for name, value in tree.items():
        dotted = f"{key}.{name}" if key else str(name)
        if name not in fields:
            problems = ["unknown key", *did_you_mean(str(name), fields), f"known keys: {listed(fields)}"]
            raise origin.error(dotted, "; ".join(problems))
        values[name] = value_of(hints[name], value, dotted, origin, fields[name].metadata)
    return section(**values)


def types_of(hint: Any) -> tuple[Any, ...]:
    """Returns the members of a union; for another hint, the hint itself."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def sections_of(hint: Any) -> list[type["DataclassInstance"]]:
    """Returns the dataclasses that a hint allows."""
    return [option for option in types_of(hint) if isinstance(option, type) and dataclasses.is_dataclass(option)]


def kinds(hint: Any) -> dict[str, type["DataclassInstance"]]:
    """Returns the dataclasses of a union by each value that their field `kind` allows."""
    return {
        kind: section
        for section in sections_of(hint)
        for kind in typing.get_args(typing.get_type_hints(section)["kind"])
    }


def keys_named(name: str, section: type["DataclassInstance"]) -> list[str]:
    """Returns the dotted keys, in a dataclass and the dataclasses within it, whose last part is `name`."""
    hints, keys = typing.get_type_hints(section), []
    for field in dataclasses.fields(section):
        if field.name == name:
            keys.append(name)
        for nested in sections_of(hints[field.name]):
            keys += [f"{field.name}.{key}" for key in keys_named(name, nested)]
    return list(dict.fromkeys(keys))  # kinds of a union may share a key


def keys_of_other_kinds(hint: Any, kind: Any) -> set[str]:
    """Returns the fields that only other kinds of a union have; none for an unknown kind."""
    sections = kinds(hint)
    if kind not in list(sections):  # a list, as an invalid kind may not be hashable
        return set()
    return {name for section in sections.values() for name in _names(section)} - _names(sections[kind])


def _names(section: type["DataclassInstance"]) -> set[str]:
    return {field.name for field in dataclasses.fields(section)}


def _build_kind(hint: Any, tree: Any, key: str, origin: Origin) -> Any:
    """Builds the dataclass of a union that the key `kind` chooses; the first one if the key is absent."""
    sections = kinds(hint)
    values = tree if isinstance(tree, dict) else {}  # `build` refuses other trees
    kind = values.get("kind", next(iter(sections)))
    if kind not in list(sections):
        raise origin.error(f"{key}.kind", not_one_of(kind, list(sections)))
    foreign = keys_of_other_kinds(hint, kind)
    for name in values:
        if name in foreign:
            fitting = " or ".join(name_of_kind for name_of_kind in sections if name in _names(sections[name_of_kind]))
            raise origin.error(f"{key}.{name}", f"is for {key}.kind: {fitting}, not {kind}")
    return build(sections[kind], tree, key, origin)


def value_of(hint: Any, value: Any, key: str, origin: Origin, metadata: Mapping) -> Any:
    """Returns the value of a dotted key, checked against a type hint and the metadata of its field.

    Raises:
      ConfigError: the value is of another type, out of range, or not a name in the field's registry.
    """
    options = types_of(hint)
    if value is None and type(None) in options:
        return None
    if sections := sections_of(hint):
        return build(sections[0], value, key, origin) if len(sections) == 1 else _build_kind(hint, value, key, origin)
    for option in options:
        kind = typing.get_origin(option) or option
        if kind is Literal and any(value == literal for literal in typing.get_args(option)):
            return value
        if kind in _MAPPINGS or kind is list:
            return _collection(kind, value, key, origin)
        if kind is float:
            value = _float_from(value)
        if kind in _SCALARS and isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
            if "registry" in metadata and value not in metadata["known"] and value not in (names := choices(metadata)):
                raise origin.error(key, not_one_of(value, names))
            return _in_range(value, key, origin, metadata)
    raise origin.error(key, _type_problem(options, value))


def _type_problem(options: tuple[Any, ...], value: Any) -> str:
    """Returns the message for a value that has none of these types."""
    literals = [name for option in options if typing.get_origin(option) is Literal for name in typing.get_args(option)]
    if literals and bool not in options:
        return not_one_of(value, literals)
    names = {**_SCALARS, type(None): "null"}
    expected = [names.get(option, str(option)) for option in options if typing.get_origin(option) is not Literal]
    advice = "; quote it for a str" if str in options and isinstance(value, (bool, int, float)) else ""
    return f"expected {' or '.join([*expected, *map(str, literals)])}, not {abbreviated(value)}{advice}"


def _collection(kind: Any, value: Any, key: str, origin: Origin) -> Any:
    expected, name = (list, "list") if kind is list else (dict, "mapping")
    if not isinstance(value, expected):
        raise origin.error(key, f"expected a {name}, not {abbreviated(value)}")
    return value


def _float_from(value: Any) -> Any:
    """Returns the float of an int, or of a str such as 1e-4, where YAML 1.1 wants 1.0e-4; else the value."""
    try:
        return float(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else value
    except ValueError:
        return value


def _in_range(value: Any, key: str, origin: Origin, metadata: Mapping) -> Any:
    limits = {"at_least": operator.ge, "above": operator.gt, "below": operator.lt}
    for name, fits in limits.items():
        limit = metadata.get(name)
        if limit is not None and not fits(value, limit):
            raise origin.error(key, f"must be {name.replace('_', ' ')} {limit}, not {value}")
    return value


def not_one_of(value: Any, known: Iterable[Any]) -> str:
    """Returns the message for a value that is none of the known ones; it names the nearest of them."""
    names = [str(name) for name in known]
    return "; ".join([f"{abbreviated(value)} is none of {', '.join(names)}", *did_you_mean(str(value), names)])


def did_you_mean(name: Any, known: Iterable[Any]) -> list[str]:
    """Returns a list with a question that names the nearest known name; [] if no name is near."""
    by_lower_case = {str(each).lower(): str(each) for each in known}
    close = difflib.get_close_matches(str(name)[:_COMPARED_CHARACTERS].lower(), by_lower_case, n=1, cutoff=0.5)
    return [f"did you mean {by_lower_case[close[0]]}?"] if close else []


def as_yaml(value: Any) -> str:
    """Returns a value as YAML, in one line."""
    style = '"' if isinstance(value, str) and not value.isprintable() else None  # only this style keeps it in one line
    return yaml.safe_dump(value, default_flow_style=True, default_style=style, width=math.inf).splitlines()[0]
