"""Errors with a one-line message for the user: what was wrong, where, and what would be right."""

import re
from typing import Any


class ConfigError(ValueError):
    """A configuration or a flag that cannot be used."""


class DataError(ValueError):
    """Text or a corpus that cannot be used."""


class RunError(RuntimeError):
    """A run that cannot continue: what is wrong, and what the user can do."""

    def __init__(self, problem: str, advice: str = ""):
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


def printable(text: str) -> str:
    """Returns a text with line breaks and other unprintable characters written as escapes."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def reason(error: Exception) -> str:
    """Returns the line of an error that names the cause, without what TensorFlow and Keras add around it."""
    lines = re.sub(r"\x1b\[[0-9;]*m|{{.*?}} ?| ?\[Op:.*", "", str(error)).splitlines()
    added = r"Exception encountered|Graph execution error|\d+ root error|Detected at node|  File |<stack traces|\t|$"
    return next((line.strip() for line in lines if not re.match(added, line)), type(error).__name__)
