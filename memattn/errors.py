"""Errors with a one-line message for the user: what was wrong, where, and what would be right."""

import re
import textwrap
from collections.abc import Iterable
from typing import Any

_LONGEST_WORD, _LONGEST_LINE = 300, 1_000  # characters of a message


class ConfigError(ValueError):
    """A configuration or a flag that cannot be used."""


class DataError(ValueError):
    """Text or a corpus that cannot be used."""


class RunError(RuntimeError):
    """A run that cannot continue.

    Args:
      problem: what is wrong.
      advice: what the user can do.
    """

    def __init__(self, problem: str = "", advice: str = ""):
        super().__init__(f"{problem}; {advice}" if advice else problem)
        self.problem = problem


class LostWorkerError(RunError):
    """Another process of the same training has ended; all of them must be restarted."""


def abbreviated(value: Any) -> str:
    """Returns the `repr` of a value for an error; only its start if it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."


def short(text: str) -> str:
    """Returns a key, a name or a path in printable characters, cut short if it is long, for an error."""
    text = printable(text)
    return text if len(text) <= 120 else f"{text[:116]} ..."


def listed(keys: Iterable[str]) -> str:
    """Returns keys joined by commas, only the first ones if there are many."""
    return textwrap.shorten(", ".join(keys), 300, placeholder=" ...")


def one_line(message: str) -> str:
    """Returns a message as one line of printable characters; long words, and a long line, lose their middle."""
    line = printable(message)
    line = re.sub(rf"\S{{{_LONGEST_WORD + 1},}}", lambda word: _without_middle(word[0], _LONGEST_WORD), line)
    return _without_middle(line, _LONGEST_LINE)


def printable(text: str) -> str:
    """Returns a text with line breaks and other unprintable characters written as escapes."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _without_middle(text: str, most: int) -> str:
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def reason(error: Exception) -> str:
    """Returns the line of an error that names the cause, without what TensorFlow and Keras add around it."""
    lines = re.sub(r"\x1b\[[0-9;]*m|{{.*?}} ?| ?\[Op:.*", "", str(error)).splitlines()
    added = r"Exception encountered|Graph execution error|\d+ root error|Detected at node|  File |<stack traces|\t|$"
    return next((line.strip() for line in lines if not re.match(added, line)), type(error).__name__)
