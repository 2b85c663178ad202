"""Counts the runs of a sweep that are done, running and failed, and estimates the time left."""

import threading
import time
from collections.abc import Mapping

from memattn.evaluation.formatting import clock


class Overview:
    """The state of an activity in all runs of a sweep; its methods may be called from any thread.

    The time left is estimated once a run is done, as if time were proportional to the amount of work.

    Args:
      activity: what is done with each run, such as "training".
      amounts: amount of work of each run by name, such as training steps.
      jobs: runs at a time.
    """

    def __init__(self, activity: str, amounts: Mapping[str, int], jobs: int):
        self._activity, self._amounts, self._jobs = activity, amounts, jobs
        self._lock = threading.Lock()
        self._waiting = set(amounts)
        self._started: dict[str, float] = {}  # times by the names of running runs
        self._done = self._failed = 0
        self._done_amount, self._done_seconds = 0, 0.0

    def start(self, name: str) -> None:
        """Notes that a run has been started."""
        with self._lock:
            self._waiting.remove(name)
            self._started[name] = time.monotonic()

    def end(self, name: str, *, has_failed: bool) -> None:
        """Notes that a run has ended."""
        with self._lock:
            seconds = time.monotonic() - self._started.pop(name)
            if has_failed:
                self._failed += 1
                return
            self._done += 1
            if self._amounts[name]:
                self._done_amount += self._amounts[name]
                self._done_seconds += seconds

    def parts(self) -> list[str]:
        """Returns the counts of runs, and the time left if it is known."""
        with self._lock:
            counts = [f"{self._activity}: {self._done} of {len(self._amounts)} runs done"]
            counts += [f"{self._failed} failed"] if self._failed else []
            counts += [f"{len(self._started)} running"] if self._started else []
            left = self._seconds_left()
        return [", ".join(counts)] + ([f"about {clock(left)} left"] if left else [])

    def _seconds_left(self) -> float | None:
        """Returns an estimate; None before the first run is done, and after the last."""
        num_runs = len(self._waiting) + len(self._started)
        if not (num_runs and self._done_amount):
            return None
        seconds_each, now = self._done_seconds / self._done_amount, time.monotonic()
        starts = {**dict.fromkeys(self._waiting, now), **self._started}
        left = sum(max(0.0, start + self._amounts[name] * seconds_each - now) for name, start in starts.items())
        return left / min(self._jobs, num_runs)
