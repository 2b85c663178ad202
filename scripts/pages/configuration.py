"""Writes the tables of docs/reference/configuration.md: all keys of a config.

Their rows come from the dataclasses with their comments, and from the mechanisms' constructors with their docstrings.
"""

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from memattn.attention import MECHANISMS, config_arguments
from memattn.config.commented import arguments, comments, summary
from memattn.config.loading import sections_of
from memattn.config.sections import Config
from memattn.errors import ConfigError
from memattn.options import OneOf, Range, hints, members, plain
from memattn.plain_values import as_yaml
from pages import filled

BEGIN, END = "<!-- keys -->\n", "<!-- end of keys -->\n"
_TYPES = {
    bool: "true or false",
    int: "int",
    float: "number",
    str: "str",
    list: "list",
    tuple: "list",
    dict: "mapping",
    Mapping: "mapping",
    type(None): "null",
}


def updated(page: str) -> str:
    """Returns a page with new tables between BEGIN and END."""
    return filled(page, BEGIN, END, [*_section_tables(Config, "", ""), *_mechanism_tables()])


def _section_tables(section: type, key: str, title: str) -> list[str]:
    """Returns the tables of the dataclass at a dotted key, and of the dataclasses within it."""
    annotations, meanings = hints(section), comments(section)
    rows, tables_within = [], []
    for field in dataclasses.fields(section):
        dotted = f"{key}.{field.name}".lstrip(".")
        sections = sections_of(annotations[field.name])
        for number, section_within in enumerate(sections):
            kinds = typing.get_args(hints(section_within).get("kind"))
            title_within = f"{dotted}.kind: {', '.join(kinds)}" if number else dotted
            tables_within += _section_tables(section_within, dotted, title_within)
        if not sections or field.name in meanings:
            values = "mapping" if sections else _values(annotations[field.name])
            rows.append(_row(dotted, values, _default(field), meanings[field.name]))
    return [*_table(title, section, rows), *tables_within] if rows else tables_within


def _mechanism_tables() -> list[str]:
    """Returns the tables of the mechanisms."""
    lines = []
    for name, mechanism in MECHANISMS.items():
        meanings, rows = arguments(mechanism), []
        for option, parameter in config_arguments(mechanism).items():
            if parameter.annotation is Any or option not in meanings:
                problem = f"argument {option} needs an annotation, and a line in its Args:"
                raise ConfigError(f"{mechanism.__name__}: {problem}")
            try:
                values = _values(parameter.annotation)
            except KeyError as error:
                problem = f"argument {option}: no config has a {error.args[0]}"
                raise ConfigError(f"{mechanism.__name__}: {problem}") from error
            meaning = meanings[option].replace("None:", "null:")  # as YAML writes it
            rows.append(_row(f"model.attention.{option}", values, parameter.default, meaning))
        lines += _table(f"model.attention.name: {name}", mechanism, rows)
    return lines


def _table(title: str, documented: type, rows: list[str]) -> list[str]:
    """Returns the lines of a table under its title and the first paragraph of a class's docstring."""
    lines = [f"### `{title}`", "", summary(documented), ""]
    return [*lines, "| key | value | default | meaning |", "|---|---|---|---|", *rows, ""] if rows else lines


def _row(key: str, values: str, default: Any, meaning: str) -> str:
    default_text = "required" if default is inspect.Parameter.empty else f"`{as_yaml(plain(default))}`"
    return f"| `{key}` | {values} | {default_text} | {meaning.rstrip('.')} |"


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _values(hint: Any) -> str:
    """Returns the values that a hint allows. Raises KeyError for another type."""
    names: list[str] = []
    for member in members(hint):
        kind, *rules = typing.get_args(member) if typing.get_origin(member) is Annotated else [member]
        if typing.get_origin(kind) is Literal:
            names += [f"`{choice}`" for choice in typing.get_args(kind)]
            continue
        registries = [rule for rule in rules if isinstance(rule, OneOf)]
        names += [f"`{name}`" for registry in registries for name in registry.names]
        if not registries:
            names.append(_TYPES[typing.get_origin(kind) or kind])
        names += [str(rule).replace(" and ", ", ") for rule in rules if isinstance(rule, Range)]
    return ", ".join(names)
