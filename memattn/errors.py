"""Errors with a one-line message for the user: what was wrong, where, and what would be right."""

import re
from typing import Any

_LONGEST_WORD, _LONGEST_LINE = 300, 1_000  # characters of a message


class ConfigError(ValueError):
    """A configuration or a flag that cannot be used."""


class DataError(ValueError):
    """Text or a corpus that cannot be used."""


class RunError(RuntimeError):
    """A run that cannot continue."""


class LostWorkerError(RunError):
    """Another process of the same training has ended; all of them must be restarted."""


def shown(value: Any) -> str:
    """A value as an error shows it: its start, where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."


def one_line(message: str) -> str:
    """The message as one line of printable characters, long words and a long line without their middle."""
    line = "".join(character if character.isprintable() else repr(character)[1:-1] for character in message)
    line = re.sub(rf"\S{{{_LONGEST_WORD + 1},}}", lambda word: _without_middle(word[0], _LONGEST_WORD), line)
    return _without_middle(line, _LONGEST_LINE)


def _without_middle(text: str, most: int) -> str:
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def reason(error: Exception) -> str:
    """The line of an error that gives the cause, without the lines and colours that TensorFlow and Keras add."""
    lines = re.sub(r"\x1b\[[0-9;]*m|{{.*?}} ?| ?\[Op:.*", "", str(error)).splitlines()
    around = r"Exception encountered|Graph execution error|\d+ root error|Detected at node|  File |<stack traces|\t|$"
    return next((line.strip() for line in lines if not re.match(around, line)), type(error).__name__)
