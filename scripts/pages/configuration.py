"""Writes the lists of docs/reference/configuration.md: all keys of a config.

Their lines come from the dataclasses with their comments, and from the mechanisms' constructors with their docstrings.
"""

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from memattn.attention import MECHANISMS, keys
from memattn.config.commented import arguments, comments, summary
from memattn.config.loading import sections_of
from memattn.config.sections import Config
from memattn.errors import ConfigError
from memattn.options import OneOf, Range, hints, members, plain
from memattn.plain_values import as_yaml
from pages import filled, with_default

BEGIN, END = "<!-- keys -->\n", "<!-- end of keys -->\n"
_TYPES = {
    int: "int",
    float: "number",
    str: "str",
    list: "list",
    tuple: "list",
    dict: "mapping",
    Mapping: "mapping",
    type(None): "`null`",
}
_BOUNDS = {"at least": "≥", "above": ">", "at most": "≤", "below": "<", " and ": ", "}


def updated(page: str) -> str:
    """Returns a page with new lists between BEGIN and END."""
    return filled(page, BEGIN, END, [*_section_lists(Config, "", ""), *_mechanism_lists()])


def _section_lists(section: type, key: str, title: str) -> list[str]:
    """Returns the lists of the dataclass at a dotted key, and of the dataclasses within it."""
    annotations, meanings = hints(section), comments(section)
    rows, lists_within = [], []
    for field in dataclasses.fields(section):
        if field.name not in inspect.get_annotations(section):
            continue  # inherited: the list of the base class has it
        dotted = f"{key}.{field.name}".lstrip(".")
        sections = sections_of(annotations[field.name])
        for number, section_within in enumerate(sections):
            kinds = typing.get_args(hints(section_within).get("kind"))
            title_within = f"{dotted}.kind: {', '.join(kinds)}" if number else dotted
            lists_within += _section_lists(section_within, dotted, title_within)
        if not sections or field.name in meanings:
            values = ["mapping"] if sections else _values(annotations[field.name])
            rows.append(_row(dotted, values, _default(field), meanings[field.name]))
    return [*_list(title, section, rows), *lists_within] if rows else lists_within


def _mechanism_lists() -> list[str]:
    """Returns the lists of the mechanisms' options."""
    lines, without = [], []
    first: dict[str, str] = {}  # the mechanism of each row so far; others with an equal row name it
    for name, mechanism in MECHANISMS.items():
        meanings, rows = arguments(mechanism), []
        shared: dict[str, list[str]] = {}
        for option, parameter in keys(mechanism).items():
            if parameter.annotation is Any or option not in meanings:
                problem = f"argument {option} needs an annotation, and a line in its Args:"
                raise ConfigError(f"{mechanism.__name__}: {problem}")
            try:
                values = _values(parameter.annotation)
            except KeyError as error:
                problem = f"argument {option}: no config has a {error.args[0]}"
                raise ConfigError(f"{mechanism.__name__}: {problem}") from error
            meaning = meanings[option].replace("None:", "null:")  # as YAML writes it
            row = _row(option, values, parameter.default, meaning)
            if row in first:
                shared.setdefault(first[row], []).append(f"`{option}`")
            else:
                first[row] = name
                rows.append(row)
        rows += [f"- {', '.join(names)}: as for `{other}`" for other, names in shared.items()]
        if rows:
            lines += [f"### `model.attention.name: {name}`", "", *rows, ""]
        else:
            without.append(f"`{name}`")
    return [*lines, f"{', '.join(without)} have no options.", ""]


def _list(title: str, documented: type, rows: list[str]) -> list[str]:
    """Returns the lines of a list under its title and the first paragraph of a class's docstring."""
    return [f"### `{title}`", "", summary(documented), "", *rows, ""]


def _row(key: str, values: list[str], default: Any, meaning: str) -> str:
    shown = "required" if default is inspect.Parameter.empty else f"`{as_yaml(plain(default))}`"
    return f"- `{key}` ({with_default(values, shown)}): {meaning.rstrip('.')}"


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _values(hint: Any) -> list[str]:
    """Returns the values that a hint allows. Raises KeyError for another type."""
    names: list[str] = []
    for member in members(hint):
        kind, *rules = typing.get_args(member) if typing.get_origin(member) is Annotated else [member]
        if typing.get_origin(kind) is Literal:
            names += [f"`{choice}`" for choice in typing.get_args(kind)]
            continue
        registries = [rule for rule in rules if isinstance(rule, OneOf)]
        names += [f"`{name}`" for registry in registries for name in registry.names]
        if kind is bool:
            names += ["`true`", "`false`"]
        elif not registries:
            bounds = " ".join(str(rule) for rule in rules if isinstance(rule, Range))
            for words, sign in _BOUNDS.items():
                bounds = bounds.replace(words, sign)
            names.append(f"{_TYPES[typing.get_origin(kind) or kind]} {bounds}".strip())
    return names
