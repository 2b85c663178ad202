"""Reads lines of standard input as they arrive, and writes lines of output as soon as they are ready."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from memattn.data.text_files import decode_lines
from memattn.errors import DataError

STDIN = "standard input"


def available_lines(descriptor: int, first: int, most: int) -> Iterator[list[str]]:
    """Yields lines of a file descriptor as they arrive: waits for a line, then takes all available, up to a limit.

    The limit doubles each time, from `first` up to `most`, so that the first lines do not wait for hundreds of others.
    Raises DataError for a line that cannot be used, after the lines before it; OSError.
    """
    number, limit = 1, first
    waiting: list[bytes] = []
    partial: list[bytes] = []  # pieces of a line whose end has not arrived
    has_ended = False
    while not has_ended:
        block = os.read(descriptor, 1 << 16)  # does not wait for a full block
        has_ended = not block
        head, *tails = block.split(b"\n")
        partial.append(head)
        if tails or has_ended:
            *waiting, last = [b"".join(partial), *tails]
            partial = [last]
            if has_ended and last:
                waiting.append(last)
        while waiting:
            lines, error = _decode(waiting[:limit], number)
            if lines:
                yield lines
            if error:
                raise error
            number, waiting = number + len(lines), waiting[limit:]
            limit = min(2 * limit, most)


def _decode(waiting: list[bytes], first: int) -> tuple[list[str], DataError | None]:
    """Returns lines up to the first that is not UTF-8, and the error of that line."""
    lines: list[str] = []
    for number, line in enumerate(waiting, first):
        try:
            lines += decode_lines(b"%b\n" % line, STDIN, number)
        except DataError as error:
            return lines, error
    return lines, None


def write_results(work: Callable[[list[str], int], Iterable[str]], batches: Iterable[list[str]]) -> None:
    """Writes the results of lines to standard output, each as soon as it is ready.

    Args:
      work: a function of some lines and the number of the first, which yields the lines of output.
      batches: the lines, in their order.
    """
    number = 1
    for lines in batches:
        for result in work(lines, number):
            sys.stdout.write(f"{result}\n")
            sys.stdout.flush()
        number += len(lines)


def in_order(results: Iterable[tuple[int, Any]], number: int) -> Iterator:
    """Yields results 0 to `number` - 1 of pairs (index, result), each as soon as it and all before it are ready."""
    ready: dict[int, Any] = {}
    remaining = iter(results)
    for index in range(number):
        while index not in ready:
            ready.update([next(remaining)])
        yield ready.pop(index)


def too_long(name: str, number: int, tokens: list[str], most: int) -> str:
    """Returns the message on line `number` of an input, which has more than `most` tokens."""
    limit = f"the {most:,} that are translated in one piece (decoding.max_source_length)"
    return f"{name}:{number}: {len(tokens):,} tokens, more than {limit}"
