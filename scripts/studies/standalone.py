"""What the scripts share that train without configs: integers in flags, and the files of a table."""

import json
from collections.abc import Mapping

from memattn import files
from memattn.errors import ConfigError


def integers(flag: str, values: list[str], *, least: int = 0) -> list[int]:
    """Returns the values of a flag as ints.

    Repeated ones count once. Raises ConfigError if there are none, and for a value that is no integer from `least` to
    2**31 - 1.
    """
    for value in values or [""]:
        if not value.isdecimal() or not least <= int(value) < 2**31:
            raise ConfigError(f"--{flag}: {value or 'empty'}; give integers from {least} to {2**31 - 1}")
    return list(dict.fromkeys(map(int, values)))


def write_table(path: str, rows: list[dict], facts: Mapping) -> None:
    """Writes rows as CSV, and facts as JSON; `path` lacks the ending."""
    files.write(f"{path}.json", json.dumps(facts, indent=2) + "\n")
    files.write_csv(f"{path}.csv", rows)
