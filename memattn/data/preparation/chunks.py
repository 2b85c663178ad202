"""Reads the two files of a split in chunks of lines, and checks that they have the same number of lines."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from memattn import reading
from memattn.data.preparation.workers import Workers
from memattn.data.text_files import decode_lines
from memattn.errors import DataError

CHUNK = 5_000  # pairs


class Chunk(NamedTuple):
    """Consecutive lines of a source and a target file.

    Attributes:
      first: number of the first line, from 1.
      paths: the source and the target file.
      lines: bytes of the lines of each file, with their ends.
    """

    first: int
    paths: tuple[str, str]
    lines: tuple[bytes, bytes]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields pairs of lines without their ends. Raises DataError."""
        source, target = (
            decode_lines(lines, path, self.first) for lines, path in zip(self.lines, self.paths, strict=True)
        )
        return zip(source, target, strict=True)


def read_chunks(source: str, target: str, skip: int = 0) -> Iterator[Chunk]:
    """Yields both files in chunks of CHUNK lines, without the first `skip` lines."""
    source_lines, target_lines = (itertools.islice(reading.lines(path), skip, None) for path in (source, target))
    for first in itertools.count(skip + 1, CHUNK):
        lines = b"".join(itertools.islice(source_lines, CHUNK)), b"".join(itertools.islice(target_lines, CHUNK))
        if not any(lines):
            return
        yield Chunk(first, (source, target), lines)


def count_pairs(pool: Workers, source: str, target: str) -> int:
    """Returns the number of lines of each file. Raises DataError if the two numbers differ, or are 0."""
    counts = list(pool.map(count_lines, (source, target)))
    if counts[0] != counts[1]:
        raise DataError(
            f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}: a line of one must be the "
            "translation of the same line of the other"
        )
    if not counts[0]:
        raise DataError(f"{source}: empty; a split needs at least one line")
    return counts[0]


def count_lines(path: str) -> int:
    """Returns the number of lines of a file. Raises DataError if it is not UTF-8 or a broken archive, OSError."""
    number = 0
    for number, line in enumerate(reading.lines(path), 1):
        decode_lines(line, path, number)
    return number
