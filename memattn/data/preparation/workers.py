"""A pool of processes that returns results in order."""

import collections
import concurrent.futures
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from memattn import processes
from memattn.errors import DataError


class Workers:
    """Pool of processes, as a context manager. At most 2 * `number` + 1 items are ahead of the reader of the results.

    Args:
      number: number of processes; with 1, the work is done in this process.
    """

    def __init__(self, number: int):
        self._number = number
        self._pool = None
        if number > 1:
            context = multiprocessing.get_context("spawn")
            self._pool = concurrent.futures.ProcessPoolExecutor(
                number, context, initializer=_start_worker, initargs=(os.getpid(),)
            )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[[Any], Any], items: Iterable) -> Iterator:
        """Yields `work(item)` for each item, in order.

        Raises what `work` raises; DataError if a process was killed.
        """
        if not self._pool:
            yield from map(work, items)
            return
        pending: collections.deque[concurrent.futures.Future] = collections.deque()
        try:
            for item in items:
                pending.append(self._pool.submit(work, item))
                if len(pending) > 2 * self._number:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise DataError("a worker process was killed (out of memory?); the same command resumes") from error


def _start_worker(parent: int) -> None:
    """Lets a worker ignore Ctrl-C, which is the parent's to handle, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.end_with(parent)
