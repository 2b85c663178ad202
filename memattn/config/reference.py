"""Tables of all configuration keys, from the dataclasses with their comments and from the mechanisms' constructors."""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from memattn.attention import MECHANISMS
from memattn.config.config import Config, mechanism_parameters
from memattn.config.schema import choices, written
from memattn.errors import ConfigError

BEGIN, END = "<!-- keys -->\n", "<!-- end of keys -->\n"
_TYPES = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    list: "list",
    dict: "mapping",
    Mapping: "mapping",
    type(None): "null",
}


def updated(page: str) -> str:
    """A page with what stands between BEGIN and END written anew."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + "\n".join([*_sections(Config, ""), *_mechanisms()]) + "\n" + END + rest.split(END)[1]


def _sections(kind: type, prefix: str) -> list[str]:
    """The tables of a dataclass and of those within it."""
    hints, said = typing.get_type_hints(kind), comments(kind)
    own, within = [], []
    for field in dataclasses.fields(kind):
        nested = next((option for option in _options(hints[field.name]) if dataclasses.is_dataclass(option)), None)
        if nested:
            within += _sections(nested, f"{prefix}{field.name}.")
        if not nested or field.name in said:
            kinds = "section" if nested else _type(hints[field.name], field.metadata)
            own.append(_row(f"{prefix}{field.name}", kinds, _default(field), said[field.name]))
    return [*_table(prefix.rstrip("."), kind.__doc__, own), *within] if own else within


def _mechanisms() -> list[str]:
    """The tables of the mechanisms, but for those of the extra `addons`."""
    lines = []
    for name in MECHANISMS:  # not items(), which would import the extra
        if name.startswith("tfa_"):
            continue
        mechanism = MECHANISMS[name]
        said, rows = arguments(mechanism), []
        for key, parameter in mechanism_parameters(mechanism).items():
            if parameter.annotation is parameter.empty or key not in said:
                raise ConfigError(f"{mechanism.__name__}: argument {key} needs an annotation, and a line in its Args:")
            try:
                kinds = _type(parameter.annotation, {})
            except KeyError as error:
                raise ConfigError(f"{mechanism.__name__}: argument {key}: no config has a {error.args[0]}") from error
            rows.append(_row(f"model.attention.{key}", kinds, parameter.default, said[key]))
        lines += _table(f"model.attention.name: {name}", mechanism.__doc__, rows)
    return lines


def comments(kind: type) -> dict[str, str]:
    """What the source of a dataclass says of its fields: beside each, or in the comment lines above it."""
    said, above = {}, []
    classes = [one for one in reversed(kind.__mro__) if dataclasses.is_dataclass(one)]
    for line in "\n".join(map(inspect.getsource, classes)).splitlines():
        field = re.match(r"    (\w+): .*?(?:  # (.*))?$", line)
        if field and (text := field[2] or " ".join(above)):
            said[field[1]] = text
        above = [*above, line.strip(" #")] if line.startswith("    # ") else []
    return said


def arguments(kind: type) -> dict[str, str]:
    """What the `Args:` of a docstring say of each argument."""
    _, _, listed = inspect.getdoc(kind).partition("Args:\n")
    found = re.findall(r"^  (\w[\w, ]*): (.*(?:\n    .*)*)", listed, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for names, text in found for name in names.split(", ")}


def _table(title: str, summary: str, rows: list[str]) -> list[str]:
    lines = [f"### `{title}`", "", " ".join(summary.partition("\n\n")[0].split()), ""]
    return [*lines, "| key | value | default | meaning |", "|---|---|---|---|", *rows, ""] if rows else lines


def _row(key: str, kinds: str, default: Any, meaning: str) -> str:
    shown = "required" if default is inspect.Parameter.empty else f"`{written(default)}`"
    return f"| `{key}` | {kinds} | {shown} | {meaning.rstrip('.')} |"


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _options(hint: Any) -> tuple:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _type(hint: Any, limits: Mapping) -> str:
    """The values that a hint allows, and their range."""
    if "registry" in limits:
        return ", ".join(f"`{name}`" for name in choices(limits))
    names = []
    for option in _options(hint):
        if typing.get_origin(option) is Literal:
            names += [f"`{choice}`" for choice in typing.get_args(option)]
        else:
            names.append(_TYPES[typing.get_origin(option) or option])
    bounds = {"at_least": "at least {}", "above": "above {}", "below": "below {}"}
    ranges = [text.format(limits[bound]) for bound, text in bounds.items() if limits.get(bound) is not None]
    return ", ".join([*names, *ranges]) if len(names) == 1 else ", ".join([names[0], *ranges, *names[1:]])
