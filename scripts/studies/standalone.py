"""Flags for several integers, and the files of a table, for scripts that train without configs."""

import json
from collections.abc import Mapping

from absl import flags

from memattn import files


class _Numbers(flags.ArgumentParser):
    """Parses positive integers, separated by commas."""

    def parse(self, argument: str) -> list[int]:
        numbers = argument.split(",")
        if not all(number.isdecimal() and int(number) for number in numbers):
            raise ValueError("expected positive integers, separated by commas")
        return list(map(int, numbers))


def define_numbers(name: str, numbers: str, meaning: str) -> None:
    """Defines a flag for positive integers, separated by commas."""
    flags.DEFINE(_Numbers(), name, numbers, meaning, serializer=flags.ListSerializer(","))


def write_table(path: str, rows: list[dict], content: Mapping) -> None:
    """Writes rows as CSV, and the content as JSON; `path` lacks the ending."""
    files.write(f"{path}.json", json.dumps(content, indent=2) + "\n")
    files.write_csv(f"{path}.csv", rows)
