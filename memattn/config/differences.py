"""Compares the configs of two runs."""

from typing import Any, NamedTuple

from memattn.config.schema import as_yaml
from memattn.errors import short


class Difference(NamedTuple):
    """A dotted key in which two mappings differ, with both values. `str` gives one line."""

    key: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        theirs, ours = (short(as_yaml(value)) for value in (self.theirs, self.ours))
        return f"{short(self.key)} ({theirs} there, {ours} here)"


def differences(theirs: dict, ours: dict, prefix: str = "") -> list[Difference]:
    """Returns the dotted keys in which two mappings of plain values differ.

    Where two mechanisms or tasks (`name`), or two kinds of model (`kind`), differ, other keys that only one of them has
    are left out.
    """
    keys = list(dict.fromkeys([*theirs, *ours]))
    choices = [choice for choice in ("name", "kind") if theirs.get(choice) != ours.get(choice)]
    if choices:
        keys = [key for key in keys if key in choices or (key in theirs and key in ours)]
    differing = []
    for key in keys:
        a, b = theirs.get(key), ours.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            differing += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            differing.append(Difference(f"{prefix}{key}", a, b))
    return differing
