"""Writes a config as YAML in which every key has its description above it."""

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from memattn import attention
from memattn.config.sections import Config
from memattn.models.seq2seq import Seq2SeqConfig
from memattn.options import plain
from memattn.plain_values import as_yaml

_WIDTH = 100


def commented(config: Config) -> str:
    """Returns all keys of a config with their values and descriptions; loading the text gives the same config."""
    return "\n".join(_lines(config, "")) + "\n"


def _lines(section: Any, indent: str) -> list[str]:
    """Returns the lines of YAML for a section of a config, each key below its description."""
    meanings, lines = comments(type(section)), []
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        lines += _comment(meanings.get(field.name, ""), indent)
        if dataclasses.is_dataclass(value):
            lines += [f"{indent}{field.name}:", *_lines(value, f"{indent}  ")]
        elif isinstance(section, Seq2SeqConfig) and field.name == "attention":
            lines += [f"{indent}{field.name}:", *_attention(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{field.name}: {as_yaml(plain(value))}")
        if not indent:
            lines.append("")
    return lines


def _attention(options: Mapping[str, Any], indent: str) -> list[str]:
    """Returns the lines of YAML for an attention mechanism: its name and its options, with descriptions."""
    mechanism = attention.mechanism(options["name"])
    lines, meanings = _comment(summary(mechanism), indent), arguments(mechanism)
    for name, value in options.items():
        lines += [*_comment(meanings.get(name, ""), indent), f"{indent}{name}: {as_yaml(value)}"]
    return lines


def _comment(text: str, indent: str) -> list[str]:
    """Returns a text as the lines of a YAML comment."""
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def comments(section: type) -> dict[str, str]:
    """Returns the comment of each field in the source of a dataclass: beside the field, or in the lines above it."""
    texts: dict[str, str] = {}
    lines_above: list[str] = []
    classes = [each for each in reversed(section.__mro__) if dataclasses.is_dataclass(each)]
    for line in "\n".join(map(inspect.getsource, classes)).splitlines():
        field = re.match(r"    (\w+): .*?(?:  # (.*))?$", line)
        if field and (text := field[2] or " ".join(lines_above)):
            texts[field[1]] = text
        lines_above = [*lines_above, line.strip(" #")] if line.startswith("    # ") else []
    return texts


def arguments(mechanism: type) -> dict[str, str]:
    """Returns the description of each argument in the `Args:` of the docstrings of a class and its bases."""
    meanings: dict[str, str] = {}
    for documented in reversed(mechanism.__mro__):
        _, _, listed = inspect.cleandoc(documented.__doc__ or "").partition("Args:\n")
        entries = re.findall(r"^  (\w[\w, ]*): (.*(?:\n    .*)*)", listed, flags=re.MULTILINE)
        meanings |= {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}
    return meanings


def summary(documented: type) -> str:
    """Returns the first paragraph of a class's docstring, in one line."""
    return " ".join((documented.__doc__ or "").partition("\n\n")[0].split())
