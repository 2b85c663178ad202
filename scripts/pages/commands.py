"""Writes the generated part of docs/reference/commands.md: what each command does, an example, and its flags."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from unittest import mock

from absl import flags

from memattn import cli, eval, export, onnx, prepare, report, sweep, train, translate
from pages import filled, with_default

BEGIN, END = "<!-- commands -->\n", "<!-- end of commands -->\n"
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


def updated(page: str) -> str:
    """Returns a page with new lists between BEGIN and END."""
    first: dict[str, str] = {}
    lines = [line for name, define in _COMMANDS.items() for line in _section(f"memattn-{name}", define, first)]
    return filled(page, BEGIN, END, lines)


def _section(command: str, define: Callable[[], None], first: dict[str, str]) -> Iterator[str]:
    """Yields the lines on a command whose function `define` defines its flags.

    `first` maps each row so far to its command; equal rows of later commands name that command instead.
    """
    others = set(flags.FLAGS)
    with mock.patch.object(cli, "run") as run:
        define()
    main = run.call_args.args[0]
    summary, _, example = (inspect.getdoc(main) or inspect.getdoc(sys.modules[main.__module__]) or "").partition("\n\n")
    yield from [f"## `{command}`", "", summary, "", "```", example.strip(), "```", ""]
    defined = [flags.FLAGS[name] for name in flags.FLAGS if name not in others]
    shared: dict[str, list[str]] = {}
    for flag in sorted(defined, key=lambda flag: (not _is_required(flag), flag.name)):
        row = _row(flag)
        if row in first and not _is_required(flag):
            shared.setdefault(first[row], []).append(f"`--{flag.name}`")
        else:
            first[row] = command
            yield row
        delattr(flags.FLAGS, flag.name)
    yield from (f"- {', '.join(names)}: as for `{other}`" for other, names in shared.items())
    yield ""


def _row(flag: flags.Flag) -> str:
    name, parser = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}", flag.parser
    values = [f"`{choice}`" for choice in getattr(parser, "enum_values", ())]
    if flag.flag_type().startswith("multi "):
        values.append("repeatable")
    meaning = re.sub(
        r"^<.*?>: |[.;]*( repeatable\.)?(;\s+repeat this option.*)?$", "", flag.help or "", flags=re.DOTALL
    )
    meaning = re.sub(r"(--\w+|\b(data|decoding|model|training)\.[\w.]+(=\w+)?)", r"`\1`", meaning)
    shown = with_default(values, _default(flag))
    return f"- `{name}`{shown and f' ({shown})'}: {meaning}"


def _default(flag: flags.Flag) -> str:
    if _is_required(flag):
        return "required"
    return "" if flag.boolean or flag.default in (None, []) else f"`{str(flag.default_as_str).strip(chr(39))}`"


def _is_required(flag: flags.Flag) -> bool:
    return any("must have a value other than None" in validator.message for validator in flag.validators)
