"""Errors with a one-line message for the user: what was wrong, where, and what would be right."""

import re


class ConfigError(ValueError):
    """A configuration or a flag that cannot be used."""


class DataError(ValueError):
    """Text or a corpus that cannot be used."""


class RunError(RuntimeError):
    """A run that cannot continue."""


class LostWorkerError(RunError):
    """Another process of the same training has ended; all of them must be restarted."""


def reason(error: Exception) -> str:
    """The line of an error that gives the cause, without the lines and colours that TensorFlow and Keras add."""
    lines = re.sub(r"\x1b\[[0-9;]*m|{{.*?}} ?| ?\[Op:.*", "", str(error)).splitlines()
    around = r"Exception encountered|Graph execution error|\d+ root error|Detected at node|  File |<stack traces|\t|$"
    return next((line.strip() for line in lines if not re.match(around, line)), type(error).__name__)
