"""The training loop of a run folder, which can be stopped and resumed anywhere.

`opening.OpenRun` makes all that the loop needs. On several machines, every worker executes the loop; what only the
chief does, and how all take the same decisions, is in `distribution.Workers`.
"""

import contextlib
import itertools
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import tensorflow as tf

from memattn import console
from memattn.config import Config
from memattn.training.config import learning_rate
from memattn.training.distribution import Workers, losing_workers
from memattn.training.opening import OpenRun
from memattn.training.reporting import Log

_PROGRESS_SECONDS = 0.25  # least time between two drawings of the progress line
_STEPS_BETWEEN_AGREEMENTS = 10  # of several workers, as an agreement takes time


def train(config: Config, run_dir: str, strategy: tf.distribute.Strategy) -> int:
    """Trains a config in a run folder, resuming if it was stopped; returns the process' exit status.

    Raises ConfigError, DataError, RunError, LostWorkerError, OSError, each with a one-line message for the user.
    """
    with losing_workers(strategy, run_dir):
        return Trainer(config, run_dir, strategy).train()


class Trainer:
    """The training of one run folder.

    Attributes:
      run: model, data, progress and checkpoints.
      log: results of training steps, and all that is printed.
      stopping: signals and the clock of checkpoints.
    """

    def __init__(self, config: Config, run_dir: str, strategy: tf.distribute.Strategy):
        self.run = OpenRun(config, run_dir, Workers(strategy))
        self.log = Log(self.run)
        self.stopping = Stopping(self.run.workers, config.training.checkpoint_minutes)
        self._started = time.monotonic() - self.run.progress.seconds  # as if the run had never been stopped

    def train(self) -> int:
        """Trains to the end or until a signal; returns the process' exit status."""
        run, progress, log = self.run, self.run.progress, self.log
        log.introduce()
        if progress.finished:
            log.say(f"already finished: {progress.finished} ({run.restored})")
            run.check_end()
            return 0
        with self.stopping.listening(), run.locked(), log.opened():
            self._loop()
        if self.stopping.agreed:
            log.say(f"stopped by {self.stopping.agreed.name} at step {progress.step:,}; the same command resumes it")
            return 128 + self.stopping.agreed
        run.check_end()
        log.write_end()
        return 0

    def _loop(self) -> None:
        """Takes training steps until the run is finished or a signal stops it."""
        run, progress, training = self.run, self.run.progress, self.run.config.training
        if progress.validation_due:  # a signal came before its end
            self.validate()
            if progress.finished:
                self.save()
        stream = run.batches.stream(*progress.position)
        while not progress.finished and not self.stopping.agreed:
            batches, positions = zip(*itertools.islice(stream, training.accumulate), strict=True)
            rate = learning_rate(training, progress.step, progress.decays)
            result = run.step(batches, progress.step, rate)  # does not wait for the devices
            self.log.add(progress.step + 1, result, progress.position)  # where the batches of this step begin
            progress.add_step(batches, positions[-1])  # where those of the next step begin
            console.redraw(after=_PROGRESS_SECONDS)
            self.stopping.agree(progress.step)
            is_last = progress.step == training.max_steps
            if is_last or progress.step % training.log_every == 0:
                self.log.write_steps()
            progress.validation_due = is_last or progress.step % training.validate_every == 0
            if progress.validation_due and not self.stopping.agreed:
                self.validate()
            is_end = progress.finished or self.stopping.agreed
            if is_end or self.stopping.checkpoint_due or progress.step % training.checkpoint_every == 0:
                self.save()

    def validate(self) -> None:
        """Scores the weights, and notes what follows. A validation that a signal to the chief interrupts stays due."""
        run, progress = self.run, self.run.progress
        self.log.settle()
        begin = time.monotonic()
        console.redraw()
        scores = run.workers.on_chief(run.validation.scores, self.stopping.is_requested)
        if scores is None:
            self.stopping.stop()
            return
        progress.seconds = time.monotonic() - self._started
        is_best = progress.add_validation(run.config.training, scores, run.model.vocabulary_size)
        self.log.write_validation(scores, time.monotonic() - begin, is_best=is_best)
        run.write_validation(is_best=is_best)
        self.log.logged_at += time.monotonic() - begin  # as if the steps had followed each other

    def save(self) -> None:
        """Writes a checkpoint."""
        self.log.settle()
        self.run.progress.seconds = time.monotonic() - self._started
        self.run.workers.on_chief(self.run.recent.save, self.run.progress.step)
        self.stopping.saved()


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
        self.checkpoint_due = self._workers.any(self._workers.is_chief and is_late)
        if self._workers.any(self.is_requested()):
            self.stop()

    def stop(self) -> None:
        """Makes training end after this step; all workers must call it in the same step."""
        self.agreed = self.received or signal.SIGTERM  # the signal of another worker is not known here

    def saved(self) -> None:
        """Notes that a checkpoint was written."""
        self._saved_at, self.checkpoint_due = time.monotonic(), False
