"""Reads parallel text in chunks of lines, and lets several processes work on the chunks."""

import collections
import concurrent.futures
import contextlib
import functools
import itertools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

from memattn import files, processes
from memattn.errors import DataError

CHUNK = 5_000  # pairs

Map = Callable[[Callable[[Any], Any], Iterable], Iterator]


class Chunk(NamedTuple):
    """Consecutive lines of a source and a target file; `first` is the number of the first, from 1."""

    first: int
    source: list[str]
    target: list[str]


def read_chunks(source: str, target: str) -> Iterator[Chunk]:
    """Yields two files with equal numbers of lines in chunks. Raises DataError, OSError."""
    for number, lines in enumerate(zip(_blocks(source), _blocks(target), strict=True)):
        yield Chunk(1 + number * CHUNK, *lines)


def count_lines(path: str) -> int:
    """Returns the number of lines of a file. Raises DataError if it is not UTF-8 or a broken archive, OSError."""
    return sum(map(len, _blocks(path)))


def _blocks(path: str) -> Iterator[list[str]]:
    """Yields the lines of a file, plain or .gz, CHUNK at a time."""
    lines = files.byte_lines(path)
    for first in itertools.count(1, CHUNK):
        block = b"".join(itertools.islice(lines, CHUNK))
        if not block:
            return
        yield files.decode_lines(block, path, first)


@contextlib.contextmanager
def map_in_processes(workers: int) -> Iterator[Map]:
    """Yields a `map` that calls its function in several processes; with 1, in this process.

    Raises what the function raises; DataError if a process was killed.
    """
    if workers == 1:
        yield map
        return
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(os.getpid(),)) as pool:
            yield functools.partial(map_in_order, pool, 2 * workers)
    except concurrent.futures.process.BrokenProcessPool as error:
        raise DataError("a worker process was killed (out of memory?); give fewer --workers") from error


def map_in_order(pool: concurrent.futures.Executor, ahead: int, work: Callable, items: Iterable) -> Iterator:
    """Yields `work(item)` for each item, in order. At most `ahead` items are in work when one is yielded."""
    pending: collections.deque[concurrent.futures.Future] = collections.deque()
    for item in items:
        pending.append(pool.submit(work, item))
        if len(pending) > ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _start_worker(parent: int) -> None:
    """Lets a worker ignore Ctrl-C, which is the parent's to handle, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.end_with(parent)
