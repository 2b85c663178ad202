"""Writes the tables of docs/reference/configuration.md: all keys of a config.

Their rows come from the dataclasses with their comments, and from the mechanisms' constructors with their docstrings.
"""

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from typing import Any, Literal

from memattn.attention import MECHANISMS
from memattn.config.commented import arguments, comments, summary
from memattn.config.mechanism_options import mechanism_parameters
from memattn.config.schema import as_yaml, choices, sections_of, types_of
from memattn.config.sections import Config
from memattn.errors import ConfigError
from pages.filling import filled

BEGIN, END = "<!-- keys -->\n", "<!-- end of keys -->\n"
_TYPES = {
    bool: "true or false",
    int: "int",
    float: "number",
    str: "str",
    list: "list",
    dict: "mapping",
    Mapping: "mapping",
    type(None): "null",
}


def updated(page: str) -> str:
    """Returns a page with new tables between BEGIN and END."""
    return filled(page, BEGIN, END, [*_section_tables(Config, "", ""), *_mechanism_tables()])


def _section_tables(section: type, key: str, title: str) -> list[str]:
    """Returns the tables of the dataclass at a dotted key, and of the dataclasses within it."""
    hints, meanings = typing.get_type_hints(section), comments(section)
    rows, tables_within = [], []
    for field in dataclasses.fields(section):
        dotted = f"{key}.{field.name}".lstrip(".")
        sections = sections_of(hints[field.name])
        for number, section_within in enumerate(sections):
            kinds = typing.get_args(typing.get_type_hints(section_within).get("kind"))
            title_within = f"{dotted}.kind: {', '.join(kinds)}" if number else dotted
            tables_within += _section_tables(section_within, dotted, title_within)
        if not sections or field.name in meanings:
            values = "mapping" if sections else _values(hints[field.name], field.metadata)
            rows.append(_row(dotted, values, _default(field), meanings[field.name]))
    return [*_table(title, section, rows), *tables_within] if rows else tables_within


def _mechanism_tables() -> list[str]:
    """Returns the tables of the mechanisms."""
    lines = []
    for name, mechanism in MECHANISMS.items():
        meanings, rows = arguments(mechanism), []
        for option, parameter in mechanism_parameters(mechanism).items():
            if parameter.annotation is parameter.empty or option not in meanings:
                problem = f"argument {option} needs an annotation, and a line in its Args:"
                raise ConfigError(f"{mechanism.__name__}: {problem}")
            try:
                values = _values(parameter.annotation, {})
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
    default_text = "required" if default is inspect.Parameter.empty else f"`{as_yaml(default)}`"
    return f"| `{key}` | {values} | {default_text} | {meaning.rstrip('.')} |"


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _values(hint: Any, metadata: Mapping) -> str:
    """Returns the values that a hint and the metadata of its field allow. Raises KeyError for another type."""
    if "registry" in metadata:
        return ", ".join(f"`{name}`" for name in choices(metadata))
    names = []
    for option in types_of(hint):
        if typing.get_origin(option) is Literal:
            names += [f"`{choice}`" for choice in typing.get_args(option)]
        else:
            names.append(_TYPES[typing.get_origin(option) or option])
    bounds = {"at_least": "at least {}", "above": "above {}", "below": "below {}"}
    ranges = [text.format(metadata[bound]) for bound, text in bounds.items() if metadata.get(bound) is not None]
    return ", ".join([names[0], *ranges, *names[1:]])
