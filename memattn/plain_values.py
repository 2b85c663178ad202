"""Plain values, as YAML and JSON have them: read, written in one line, and compared."""

import math
import re
from typing import Any, NamedTuple

import yaml

from memattn.errors import short


class Loader(yaml.SafeLoader):
    """A loader that reads 1e-4 as a number, as YAML 1.2 does; YAML 1.1 wants 1.0e-4."""


class Dumper(yaml.SafeDumper):
    """A dumper that puts a str in quotes where `Loader` would read a number."""


for _each in (Loader, Dumper):
    _each.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?([0-9]+\.?|[0-9]*\.[0-9]+)[eE][-+]?[0-9]+$"), list("-+.0123456789")
    )


def as_yaml(value: Any) -> str:
    """Returns a value as YAML, in one line."""
    style = '"' if isinstance(value, str) and not value.isprintable() else None  # only this style keeps it in one line
    text = yaml.dump(value, Dumper=Dumper, default_flow_style=True, default_style=style, width=math.inf)
    return text.splitlines()[0]


def dump(tree: dict) -> str:
    """Returns a mapping as YAML, with its keys in their order."""
    return yaml.dump(tree, Dumper=Dumper, sort_keys=False)


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
