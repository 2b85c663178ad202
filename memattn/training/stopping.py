"""Signals that stop a training, and the clock that makes a checkpoint due."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

from memattn.training.distribution import Workers

_STEPS_BETWEEN_AGREEMENTS = 10  # of several workers, as an agreement takes time


class Stopping:
    """Decides whether training stops, and whether a checkpoint is due, in the same training step on all workers.

    Attributes:
      received: the signal that this process got; None before one came.
      agreed: the signal that all workers stop for; None while training continues.
      checkpoint_due: whether the last checkpoint is older than `training.checkpoint_minutes`.
    """

    received: signal.Signals | None = None
    agreed: signal.Signals | None = None
    checkpoint_due = False

    def __init__(self, workers: Workers, checkpoint_minutes: float):
        self._workers, self._checkpoint_seconds = workers, 60 * checkpoint_minutes
        self._saved_at = time.monotonic()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Treats SIGINT and SIGTERM as requests to stop; only in the main thread, as no other gets signals."""
        in_main_thread = threading.current_thread() is threading.main_thread()
        signals = (signal.SIGINT, signal.SIGTERM) if in_main_thread else ()
        former = {number: signal.signal(number, self.on_signal) for number in signals}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def on_signal(self, number: int, _: FrameType | None) -> None:
        """Makes training stop after this step; a SIGINT after another signal raises KeyboardInterrupt at once."""
        if self.received and number == signal.SIGINT:  # schedulers repeat SIGTERM
            raise KeyboardInterrupt
        self.received = signal.Signals(number)

    def is_requested(self) -> bool:
        """Returns whether this process got a signal."""
        return self.received is not None

    def agree(self, step: int) -> None:
        """Sets `agreed` if a worker got a signal, and `checkpoint_due` by the chief's clock.

        Several workers agree only after every tenth step.
        """
        if self._workers.several and step % _STEPS_BETWEEN_AGREEMENTS:
            return
        is_late = time.monotonic() - self._saved_at > self._checkpoint_seconds
        requested, self.checkpoint_due = self._workers.any(self.is_requested(), self._workers.is_chief and is_late)
        if requested:
            self.stop()

    def stop(self) -> None:
        """Makes training end after this step; all workers must call it in the same step."""
        self.agreed = self.received or signal.SIGTERM  # the signal of another worker is not known here

    def saved(self) -> None:
        """Notes that a checkpoint was written."""
        self._saved_at, self.checkpoint_due = time.monotonic(), False
