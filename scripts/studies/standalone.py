"""Flags for several integers, and the files of a table, for scripts that train without configs."""

import json
from collections.abc import Mapping

from absl import flags

from memattn import files


def define_numbers(name: str, numbers: str, meaning: str) -> None:
    """Defines a flag for positive integers, separated by commas."""
    flags.DEFINE_list(name, numbers.split(","), meaning)
    flags.register_validator(
        name,
        lambda values: bool(values) and all(value.isdecimal() and int(value) for value in values),
        "positive integers, separated by commas",
    )


def write_table(path: str, rows: list[dict], content: Mapping) -> None:
    """Writes rows as CSV, and the content as JSON; `path` lacks the ending."""
    files.write(f"{path}.json", json.dumps(content, indent=2) + "\n")
    files.write_csv(f"{path}.csv", rows)
