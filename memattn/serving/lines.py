"""Lines of standard input, read as they arrive, and their results in the order of the lines."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from memattn.errors import DataError
from memattn.files import decode_lines

STDIN = "standard input"


def available_lines(descriptor: int, first: int, most: int) -> Iterator[list[str]]:
    """Yields lines of a file descriptor as they arrive: waits for a line, then takes all available, up to a limit.

    The limit doubles each time, from `first` up to `most`, so that the first lines do not wait for hundreds of others.
    Raises DataError for a line that is not UTF-8, after the lines before it; OSError.
    """
    number, limit, rest = 1, first, b""
    while block := os.read(descriptor, 1 << 16):  # does not wait for a full block
        *complete, rest = (rest + block).split(b"\n")
        while complete:
            yield from _decoded(complete[:limit], number)
            number, complete = number + len(complete[:limit]), complete[limit:]
            limit = min(2 * limit, most)
    if rest:
        yield from _decoded([rest], number)


def _decoded(lines: list[bytes], first: int) -> Iterator[list[str]]:
    """Yields a list of the lines; if one is not UTF-8, of those before it, and then raises DataError."""
    texts = (decode_lines(b"%b\n" % line, STDIN, number)[0] for number, line in enumerate(lines, first))
    return until_error(texts, lambda texts: [texts] if texts else [])


def until_error(items: Iterable, work: Callable[[list], Iterable]) -> Iterator:
    """Yields `work(items)` of the items before the first that raises DataError, and then raises that error."""
    done, error = [], None
    try:
        for item in items:
            done.append(item)
    except DataError as problem:
        error = problem
    yield from work(done)
    if error:
        raise error


def in_order(results: Iterable[tuple[int, Any]], number: int) -> Iterator:
    """Yields results 0 to `number` - 1 of pairs (index, result), each as soon as it and all before it are ready."""
    ready: dict[int, Any] = {}
    remaining = iter(results)
    for index in range(number):
        while index not in ready:
            ready.update([next(remaining)])
        yield ready.pop(index)


def too_long(place: str, tokens: list[str], most: int) -> str:
    """Returns the message on the line at a place such as "standard input:7", which has more than `most` tokens."""
    limit = f"the {most:,} that are translated in one piece (decoding.max_source_length)"
    return f"{place}: {len(tokens):,} tokens, more than {limit}"
