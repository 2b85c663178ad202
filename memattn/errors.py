"""The errors whose message is one line for the user: what was wrong, where, and what would be right."""

import re


class ConfigError(ValueError):
    """A configuration or a flag that cannot be used."""


class DataError(ValueError):
    """Text or a corpus that cannot be used."""


class RunError(RuntimeError):
    """A run that cannot go on."""


class LostWorkerError(RunError):
    """Another process of the same training has ended; all of them have to be started again."""


def reason(error: Exception) -> str:
    """The line of an error that says why; TensorFlow and Keras put theirs around it, and Keras 3 colours it."""
    lines = re.sub("\x1b\\[[0-9;]*m", "", str(error)).splitlines()
    around = r"Exception encountered|Graph execution error|\d+ root error|Detected at node|  File |<stack traces|\t|$"
    return next((line.strip() for line in lines if not re.match(around, line)), type(error).__name__)
