"""Lets all workers agree on signals that stop training, and on the clock that makes a checkpoint due."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import tensorflow as tf

from memattn.training import distribution


class Stopping:
    """Decides together with the other workers whether training stops, and whether a checkpoint is due.

    Attributes:
      received: the signal that this process got; None before one came.
      agreed: the signal that all workers stop for; None while training continues.
    """

    received: signal.Signals | None = None
    agreed: signal.Signals | None = None

    def __init__(self, strategy: tf.distribute.Strategy, checkpoint_minutes: float):
        self._strategy, self._checkpoint_seconds = strategy, 60 * checkpoint_minutes
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

    def agree(self, step: int) -> bool:
        """Stops all workers if one got a signal; returns whether a checkpoint is due by the chief's clock.

        Between the meetings of several workers, it does nothing and returns False.
        """
        if not distribution.meets(self._strategy, step):
            return False
        passed = time.monotonic() - self._saved_at
        due = distribution.is_chief(self._strategy) and passed > self._checkpoint_seconds
        signalled, due = distribution.on_any_worker(self._strategy, [self.received is not None, due])
        if signalled:
            self.stop()
        return due

    def stop(self) -> None:
        """Makes this worker end training after this step, as all others do."""
        self.agreed = self.received or signal.SIGTERM  # the signal of another worker is not known here

    def saved(self) -> None:
        """Notes that a checkpoint was written."""
        self._saved_at = time.monotonic()
