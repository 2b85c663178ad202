"""Writes the tables of docs/reference/: all keys of a config, and what each command does, with its flags.

The rows of the keys come from the dataclasses with their comments, and from the mechanisms' constructors with their
docstrings; those of the flags, from the commands.
"""

import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal
from unittest import mock

from absl import flags

from memattn import cli, eval, export, onnx, prepare, report, sweep, train, translate
from memattn.attention import MECHANISMS, keys
from memattn.config.commented import arguments, comments, summary
from memattn.config.loading import sections_of
from memattn.config.sections import Config
from memattn.errors import ConfigError
from memattn.options import OneOf, Range, hints, members, plain
from memattn.plain_values import as_yaml

KEYS, COMMANDS = "<!-- keys -->\n", "<!-- commands -->\n"  # marks before the tables
_COMMANDS = {
    **{f"prepare {name}": command for name, command in prepare.COMMANDS.items()},
    "train": train.main,
    "eval": eval.main,
    "report": report.main,
    "translate": translate.main,
    "sweep": sweep.main,
    "export": export.main,
    "onnx": onnx.main,
}
_TYPES_OF_FLAGS = {
    "string": "str",
    "int": "int",
    "float": "number",
    "bool": "",
    "comma separated list of strings": "list",
}
_TYPES_OF_KEYS = {
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


def configuration(page: str) -> str:
    """Returns the page on configs with new tables of all keys."""
    return _filled(page, KEYS, [*_section_tables(Config, "", ""), *_mechanism_tables()])


def commands(page: str) -> str:
    """Returns the page on commands with a new part on each: what it does, an example, and its flags."""
    return _filled(page, COMMANDS, [line for name, define in _COMMANDS.items() for line in _command(name, define)])


def _filled(page: str, begin: str, lines: list[str]) -> str:
    """Returns a page with new lines between the mark `begin` and that of its end."""
    end = begin.replace("<!-- ", "<!-- end of ")
    before, rest = page.split(begin)
    return before + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1]


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
            rows.append(_key_row(dotted, values, _default_of_key(field), meanings[field.name]))
    return [*_table(title, section, rows), *tables_within] if rows else tables_within


def _mechanism_tables() -> list[str]:
    """Returns the tables of the mechanisms."""
    lines = []
    for name, mechanism in MECHANISMS.items():
        meanings, rows = arguments(mechanism), []
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
            rows.append(_key_row(f"model.attention.{option}", values, parameter.default, meaning))
        lines += _table(f"model.attention.name: {name}", mechanism, rows)
    return lines


def _table(title: str, documented: type, rows: list[str]) -> list[str]:
    """Returns the lines of a table under its title and the first paragraph of a class's docstring."""
    lines = [f"### `{title}`", "", summary(documented), ""]
    return [*lines, "| key | value | default | meaning |", "|---|---|---|---|", *rows, ""] if rows else lines


def _key_row(key: str, values: str, default: Any, meaning: str) -> str:
    default_text = "required" if default is inspect.Parameter.empty else f"`{as_yaml(plain(default))}`"
    return f"| `{key}` | {values} | {default_text} | {meaning.rstrip('.')} |"


def _default_of_key(field: dataclasses.Field) -> Any:
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
            names.append(_TYPES_OF_KEYS[typing.get_origin(kind) or kind])
        names += [str(rule).replace(" and ", ", ") for rule in rules if isinstance(rule, Range)]
    return ", ".join(names)


def _command(name: str, define: Callable[[], None]) -> Iterator[str]:
    """Yields the lines on a command of this name, whose function `define` defines its flags."""
    others = set(flags.FLAGS)
    with mock.patch.object(cli, "run") as run:
        define()
    main = run.call_args.args[0]
    about, _, example = (inspect.getdoc(main) or inspect.getdoc(sys.modules[main.__module__]) or "").partition("\n\n")
    yield from [f"## `memattn-{name}`", "", about, "", "```", example.strip(), "```", ""]
    yield from ["| flag | value | default | meaning |", "|---|---|---|---|"]
    defined = [flags.FLAGS[name] for name in flags.FLAGS if name not in others]
    for flag in sorted(defined, key=lambda flag: (not _is_required(flag), flag.name)):
        yield _flag_row(flag)
        delattr(flags.FLAGS, flag.name)
    yield ""


def _flag_row(flag: flags.Flag) -> str:
    name, parser = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}", flag.parser
    choices = ", ".join(f"`{choice}`" for choice in getattr(parser, "enum_values", ()))
    kind = flag.flag_type().removeprefix("multi ")
    value = choices or _TYPES_OF_FLAGS[kind]
    if kind != flag.flag_type():
        value += ", repeatable"
    meaning = re.sub(
        r"^<.*?>: |[.;]*( repeatable\.)?(;\s+repeat this option.*)?$", "", flag.help or "", flags=re.DOTALL
    )
    meaning = re.sub(r"(--\w+|\b(data|decoding|model|training)\.[\w.]+(=\w+)?)", r"`\1`", meaning)
    return f"| `{name}` | {value} | {_default_of_flag(flag)} | {meaning} |"


def _default_of_flag(flag: flags.Flag) -> str:
    if _is_required(flag):
        return "required"
    return "" if flag.boolean or flag.default in (None, []) else f"`{str(flag.default_as_str).strip(chr(39))}`"


def _is_required(flag: flags.Flag) -> bool:
    return any("must have a value other than None" in validator.message for validator in flag.validators)
