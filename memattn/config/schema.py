"""Reads YAML into frozen dataclasses, and says file, line, key, value and what would be right where it cannot."""

import dataclasses
import difflib
import importlib
import math
import re
import textwrap
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import yaml

from memattn.errors import ConfigError, abbreviated, short

_MAPPINGS = (Mapping, dict)
_OCTAL = re.compile(r"0o[0-7]{1,22}")  # of YAML 1.2
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_COMPARED = 100  # characters of a name that is compared with known ones
_PLAIN = "tag:yaml.org,2002:"
_MOST_VALUES = 100_000  # of a config, its aliases written out


def number(default: Any, *, at_least: float | None = None, above: float | None = None, below: float | None = None):
    """A dataclass field with a range, checked at load."""
    return dataclasses.field(default=default, metadata={"at_least": at_least, "above": above, "below": below})


def choice(default: str, registry: str):
    """A dataclass field whose values are the names in a dictionary, given as "module:dictionary".

    The dictionary may be in any layer of the package: it is imported when a config names something else than the
    default, so that a new entry is known to configs and their documentation without further edits.
    """
    return dataclasses.field(default=default, metadata={"registry": registry, "known": (default,)})


def choices(metadata: Mapping) -> list[str]:
    """The names that a field of `choice` may have."""
    module, _, dictionary = metadata["registry"].partition(":")
    return list(getattr(importlib.import_module(module), dictionary))


class _Loader(yaml.SafeLoader):
    """YAML 1.1 without the plain scalars that 1.2 reads otherwise: dates and numbers such as 1:30 are text."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern) for tag, pattern in resolvers if tag.removeprefix(_PLAIN) in ("bool", "int", "float", "null")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class Source:
    """The file that a configuration came from, and the line of each dotted key."""

    def __init__(self, name: str):
        self.name, self.lines = name, {}

    def replace(self, key: str, where: str) -> None:
        """Notes that a key with all below it comes from elsewhere, and those above it where they are new."""
        self.lines = {known: line for known, line in self.lines.items() if not known.startswith((f"{key}.", f"{key}["))}
        self.lines[key] = where
        while key := key.rpartition(".")[0]:
            self.lines.setdefault(key, where)

    def error(self, key: str, problem: str) -> ConfigError:
        known = key
        while known and known not in self.lines:
            known = known.rpartition(".")[0]
        where = self.lines.get(known, self.name)
        return ConfigError(f"{where}: {short(key)}: {problem}" if key else f"{where}: {problem}")


def parse(text: str, source: Source) -> Any:
    """Plain values of a YAML text, None for an empty one; notes the line of each key. Raises ConfigError."""
    try:
        node = yaml.compose(text, Loader=_Loader)
        return None if node is None else _construct(node, "", source)
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark and not source.name.startswith("--set") else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{source.name}{line}: not valid YAML: {problem}") from error
    except RecursionError as error:
        raise ConfigError(f"{source.name}: nested too deep, or an alias within its own anchor") from error


def _construct(node: yaml.Node, key: str, source: Source) -> Any:
    """Plain values of a YAML node, with the line of each key noted and repeated keys refused."""
    if len(source.lines) > _MOST_VALUES:
        raise source.error(key, f"the config has more than {_MOST_VALUES:,} values, its aliases written out")
    if not isinstance(node, yaml.ScalarNode) and node.tag.removeprefix(_PLAIN) not in ("seq", "map"):
        raise source.error(key, f"the tag {abbreviated(node.tag)} is for no list or mapping; remove it")
    if isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            source.lines[f"{key}[{i}]"] = f"{source.name}:{item.start_mark.line + 1}"
        return [_construct(item, f"{key}[{i}]", source) for i, item in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, key, source)
    mapping = {}
    for name_node, value_node in node.value:
        if not isinstance(name_node, yaml.ScalarNode):
            raise source.error(key, "a key is a str, not a list or a mapping")
        name = _encodable(name_node.value, key, source)
        dotted = f"{key}.{name}" if key else name
        source.lines[dotted] = f"{source.name}:{name_node.start_mark.line + 1}"  # not the value's: it may be an alias
        if name in mapping:
            raise source.error(dotted, "given twice")
        mapping[name] = _construct(value_node, dotted, source)
    return mapping


def _scalar(node: yaml.ScalarNode, key: str, source: Source) -> Any:
    """The value of a YAML scalar. Raises ConfigError for a number that YAML 1.1 and 1.2 read differently."""
    kind, written = node.tag.removeprefix(_PLAIN), node.value
    if kind in ("int", "float") and ":" in written and not node.style:
        return written
    if kind == "int" and _LEADING_ZERO.fullmatch(written):
        right = "leave out the zero, write 0o... for octal, or quote it as text"
        raise source.error(key, f"{abbreviated(written)} is octal in YAML 1.1 and decimal in 1.2; {right}")
    try:
        value = _Loader("").construct_object(node)
    except Exception as error:  # PyYAML's constructors raise whatever they run into
        raise source.error(key, f"not a plain value: {abbreviated(written)}") from error
    if isinstance(value, int) and value.bit_length() > 64:
        raise source.error(key, f"a number of {value.bit_length():,} bits is too large")
    return _encodable(value, key, source) if isinstance(value, str) else value


def _encodable(text: str, key: str, source: Source) -> str:
    """The text. Raises ConfigError for half of a surrogate pair, which no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise source.error(key, f"not a character: {abbreviated(text[error.start])}") from error
    return text


def build(kind: type, tree: Any, key: str, source: Source) -> Any:
    """A dataclass from the section of that dotted key, checked by its type hints and ranges. Raises ConfigError."""
    if not isinstance(tree, dict):
        raise source.error(key, f"expected a section with keys, not {abbreviated(tree)}")
    hints, fields = typing.get_type_hints(kind), {field.name: field for field in dataclasses.fields(kind)}
    values = {}
    for name, value in tree.items():
        dotted = f"{key}.{name}" if key else name
        if name not in fields:
            raise source.error(dotted, f"unknown key; {nearest(name, fields)}known keys: {listed(fields)}")
        if value is None and (fields[name].default is dataclasses.MISSING) and dataclasses.is_dataclass(hints[name]):
            value = {}
        values[name] = value_of(hints[name], value, dotted, source, fields[name].metadata)
    return kind(**values)


def value_of(hint: Any, value: Any, key: str, source: Source, limits: Mapping) -> Any:
    """The value of that dotted key, checked against its type hint and range. Raises ConfigError."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if value is None and type(None) in options:
        return None
    for option in options:
        if dataclasses.is_dataclass(option):
            return build(option, value, key, source)
        if typing.get_origin(option) is Literal and any(value == choice for choice in typing.get_args(option)):
            return value
        if (typing.get_origin(option) or option) in (*_MAPPINGS, list):
            return _collection(option, value, key, source)
        if option in (int, float) and isinstance(value, (int, str)) and not isinstance(value, bool):
            value = _number_from(value, option)
        if (
            option in (int, float, bool, str)
            and isinstance(value, option)
            and (option is bool or not isinstance(value, bool))
        ):
            if "registry" in limits and value not in limits["known"] and value not in (names := choices(limits)):
                raise source.error(key, not_one_of(value, names))
            return _in_range(value, key, source, limits)
    literals = [
        literal for option in options if typing.get_origin(option) is Literal for literal in typing.get_args(option)
    ]
    if literals and bool not in options:
        raise source.error(key, not_one_of(value, literals))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    kinds = [names.get(option, str(option)) for option in options if typing.get_origin(option) is not Literal]
    expected = " or ".join([*kinds, *map(str, literals)])
    unquoted = "; quote it if it is text" if str in options and isinstance(value, (bool, int, float)) else ""
    raise source.error(key, f"expected {expected}, not {abbreviated(value)}{unquoted}")


def _collection(hint: Any, value: Any, key: str, source: Source) -> Any:
    expected = dict if (typing.get_origin(hint) or hint) in _MAPPINGS else list
    if not isinstance(value, expected):
        raise source.error(key, f"expected a {'mapping' if expected is dict else 'list'}, not {abbreviated(value)}")
    return value


def _number_from(value: int | str, kind: type) -> Any:
    """The number that a value is in YAML 1.2, where PyYAML reads 1e-4 and 0o17 as text; else the value."""
    if isinstance(value, str) and _OCTAL.fullmatch(value):
        value = int(value, 8)
    try:
        return float(value) if kind is float else value
    except (ValueError, OverflowError):
        return value


def _in_range(value: Any, key: str, source: Source, limits: Mapping) -> Any:
    at_least, above, below = (limits.get(name) for name in ("at_least", "above", "below"))
    if isinstance(value, float) and not math.isfinite(value):
        raise source.error(key, f"must be finite, not {value}")
    if isinstance(value, int) and abs(value) >= 2**31:
        raise source.error(key, f"a whole number must fit 32 bits, not {abbreviated(value)}")
    if at_least is not None and value < at_least:
        raise source.error(key, f"must be at least {at_least}, not {value}")
    if above is not None and value <= above:
        raise source.error(key, f"must be above {above}, not {value}")
    if below is not None and value >= below:
        raise source.error(key, f"must be below {below}, not {value}")
    return value


def not_one_of(value: Any, choices: list) -> str:
    return f"{abbreviated(value)} is none of {', '.join(map(str, choices))}{nearest(str(value), choices, '; ', '')}"


def written(value: Any) -> str:
    """A value as YAML, in one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=math.inf).splitlines()[0]


def listed(keys: Iterable[str]) -> str:
    """Keys as an error lists them: the first ones, where they are many."""
    return textwrap.shorten(", ".join(keys), 300, placeholder=" ...")


def nearest(name: str, known: Any, before: str = "", after: str = "; ") -> str:
    close = difflib.get_close_matches(name[:_COMPARED], [str(k) for k in known], n=1, cutoff=0.5)
    return f"{before}did you mean {close[0]}?{after}" if close else ""
