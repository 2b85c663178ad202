"""Writes the lists of docs/reference/: all keys of a config, and what each command does, with its flags.

The lines of the keys come from the dataclasses with their comments, and from the mechanisms' constructors with their
docstrings; those of the flags, from the commands.
"""

import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal
from unittest import mock

from absl import flags

from memattn import cli, eval, export, onnx, prepare, report, sweep, train, translate
from memattn.attention import MECHANISMS, config_arguments
from memattn.config.commented import arguments, comments, summary
from memattn.config.loading import sections_of
from memattn.config.sections import Config
from memattn.options import TYPES, OneOf, Range, hints, members, plain
from memattn.plain_values import as_yaml

KEYS, COMMANDS = "<!-- keys -->\n", "<!-- commands -->\n"  # marks before the lists
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
_BOUNDS = {"at least": "≥", "above": ">", "at most": "≤", "below": "<", " and ": ", "}


def configuration(page: str) -> str:
    """Returns the page on configs with new lists of all keys."""
    return _filled(page, KEYS, [*_section_lists(Config, "", ""), *_mechanism_lists()])


def commands(page: str) -> str:
    """Returns the page on commands with a new part on each: what it does, an example, and its flags."""
    first: dict[str, str] = {}
    lines = [line for name, define in _COMMANDS.items() for line in _command(f"memattn-{name}", define, first)]
    return _filled(page, COMMANDS, lines)


def _filled(page: str, begin: str, lines: list[str]) -> str:
    """Returns a page with new lines between the mark `begin` and that of its end."""
    end = begin.replace("<!-- ", "<!-- end of ")
    before, rest = page.split(begin)
    return before + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1]


def _with_default(values: list[str], default: str) -> str:
    """Returns the values of an option as a list shows them, the default in bold type."""
    listed = values if default in values or not default else [*values, default]
    return ", ".join(f"**{value}**" if value == default else value for value in listed)


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
            rows.append(_key(dotted, values, _default(field), meanings[field.name]))
    return [f"### `{title}`", "", summary(section), "", *rows, "", *lists_within] if rows else lists_within


def _mechanism_lists() -> list[str]:
    """Returns the lists of the mechanisms' options."""
    lines, without = [], []
    first: dict[str, str] = {}
    for name, mechanism in MECHANISMS.items():
        meanings, entries = arguments(mechanism), {}
        for option, parameter in config_arguments(mechanism).items():
            meaning = meanings[option].replace("None:", "null:")  # as YAML writes it
            entries[option] = _key(option, _values(parameter.annotation), parameter.default, meaning)
        if entries:
            lines += [f"### `model.attention.name: {name}`", "", *_each_once(entries, name, first), ""]
        else:
            without.append(f"`{name}`")
    return [*lines, f"{', '.join(without)} have no options.", ""]


def _each_once(entries: dict[str, str], place: str, first: dict[str, str]) -> list[str]:
    """Returns the lines of a list of entries, by name, under the heading `place`.

    An entry that stands under an earlier heading is not repeated: a last line names it and that heading. `first` has
    the heading of each entry so far, and gets the new ones.
    """
    repeated: dict[str, list[str]] = {}
    for name, entry in entries.items():
        if first.setdefault(entry, place) != place:
            repeated.setdefault(first[entry], []).append(f"`{name}`")
    new = [entry for entry in entries.values() if first[entry] == place]
    return [*new, *(f"- {', '.join(names)}: as for `{earlier}`" for earlier, names in repeated.items())]


def _key(key: str, values: list[str], default: Any, meaning: str) -> str:
    shown = "required" if default is inspect.Parameter.empty else f"`{as_yaml(plain(default))}`"
    return f"- `{key}` ({_with_default(values, shown)}): {meaning.rstrip('.')}"


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _values(hint: Any) -> list[str]:
    """Returns the values that a hint allows."""
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
            name = TYPES[typing.get_origin(kind) or kind].split()[-1]  # without its article
            names.append("`null`" if name == "null" else f"{name} {bounds}".strip())
    return names


def _command(command: str, define: Callable[[], None], first: dict[str, str]) -> Iterator[str]:
    """Yields the lines on a command whose function `define` defines its flags; `first` is that of `_each_once`."""
    others = set(flags.FLAGS)
    with mock.patch.object(cli, "run") as run:
        define()
    main = run.call_args.args[0]
    summary, _, example = (inspect.getdoc(main) or inspect.getdoc(sys.modules[main.__module__]) or "").partition("\n\n")
    yield from [f"## `{command}`", "", summary, "", "```", example.strip(), "```", ""]
    defined = [flags.FLAGS[name] for name in flags.FLAGS if name not in others]
    optional = {}
    for flag in sorted(defined, key=lambda flag: flag.name):
        if _is_required(flag):
            yield _flag(flag)
        else:
            optional[f"--{flag.name}"] = _flag(flag)
        delattr(flags.FLAGS, flag.name)
    yield from _each_once(optional, command, first)
    yield ""


def _flag(flag: flags.Flag) -> str:
    name, parser = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}", flag.parser
    values = [f"`{choice}`" for choice in getattr(parser, "enum_values", ())]
    if flag.flag_type().startswith("multi "):
        values.append("repeatable")
    meaning = re.sub(
        r"^<.*?>: |[.;]*( repeatable\.)?(;\s+repeat this option.*)?$", "", flag.help or "", flags=re.DOTALL
    )
    meaning = re.sub(r"(--\w+|\b(data|decoding|model|training)\.[\w.]+(=\w+)?)", r"`\1`", meaning)
    shown = _with_default(values, _default_of_flag(flag))
    return f"- `{name}`{shown and f' ({shown})'}: {meaning}"


def _default_of_flag(flag: flags.Flag) -> str:
    if _is_required(flag):
        return "required"
    return "" if flag.boolean or flag.default in (None, []) else f"`{str(flag.default_as_str).strip(chr(39))}`"


def _is_required(flag: flags.Flag) -> bool:
    return any("must have a value other than None" in validator.message for validator in flag.validators)
