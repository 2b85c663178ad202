"""The training loop of a run folder, which can be stopped and resumed anywhere.

`opening.OpenRun` makes all that the loop needs. On several machines, every worker executes the loop; what only the
chief does, and how all take the same decisions, is in `distribution.Workers`.
"""

import contextlib
import dataclasses
import io
import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf

from memattn import files
from memattn.config import Config
from memattn.data.batches import Position
from memattn.errors import LostWorkerError, RunError, reason
from memattn.training.config import learning_rate
from memattn.training.distribution import Workers, is_lost_worker
from memattn.training.log import Log
from memattn.training.opening import OpenRun
from memattn.training.step import UpdateResult

_MOST_PENDING = 100  # steps that may run before training waits for their results
_ADVICE = "a smaller training.learning_rate or training.clip_norm may help"
_STEPS_BETWEEN_AGREEMENTS = 10  # of several workers, as an agreement takes time


def train(config: Config, run_dir: str, strategy: tf.distribute.Strategy) -> int:
    """Trains a config in a run folder, resuming if it was stopped; returns the process' exit status.

    Raises ConfigError, DataError, RunError, LostWorkerError, OSError, each with a one-line message for the user.
    """
    try:
        return Trainer(dataclasses.replace(config, sweep=None), run_dir, strategy).train()
    except tf.errors.OpError as error:
        if not (is_lost_worker(error) and isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)):
            raise
        problem = f"a worker was lost; restart all workers to resume ({reason(error)})"
        raise LostWorkerError(f"{run_dir}: {problem}") from error


class Trainer:
    """The training of one run folder.

    Training does not wait for a step's result: while the devices compute, further batches are prepared. Results are
    read when a report, a validation or a checkpoint needs them, or when many are pending.
    """

    def __init__(self, config: Config, run_dir: str, strategy: tf.distribute.Strategy):
        self.run = OpenRun(config, run_dir, Workers(strategy))
        self.log = Log(self.run)
        self.stopping = Stopping(self.run.workers, config.training.checkpoint_minutes)
        # Of the last steps: number, unread result, and position of the first batch.
        self.pending: list[tuple[int, tf.Tensor, Position]] = []
        self._started = time.monotonic() - self.run.progress.seconds  # as if the run had never been stopped

    def train(self) -> int:
        """Trains to the end or until a signal; returns the process' exit status."""
        run, progress, log = self.run, self.run.progress, self.log
        log.introduce()
        if progress.finished:
            log.say(f"already finished: {progress.finished} ({run.restored})")
            self._check_end()
            return 0
        with self.stopping.listening(), run.workers.entered_on_chief(run.locked()), log.opened():
            self._loop()
        if self.stopping.agreed:
            log.say(f"stopped by {self.stopping.agreed.name} at step {progress.step:,}; the same command resumes it")
            return 128 + self.stopping.agreed
        self._check_end()
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
            result = run.training_step(batches, progress.step, rate)  # does not wait for the devices
            self.pending.append((progress.step + 1, result, progress.position))  # where the batches of this step begin
            progress.add_step(batches, positions[-1])  # where those of the next step begin
            if len(self.pending) == _MOST_PENDING:
                self.collect()
            self.log.bar.update()
            self.stopping.agree(progress.step)
            is_last = progress.step == training.max_steps
            if is_last or progress.step % training.log_every == 0:
                self.collect()
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
        self.check_weights()
        begin = time.monotonic()
        self.log.bar.set_description("validating")
        scores = run.workers.on_chief(run.validation.scores, self.stopping.is_requested)
        if scores is None:
            self.stopping.stop()
            return
        progress.seconds = time.monotonic() - self._started
        is_best = progress.add_validation(run.config.training, scores, run.model.vocabulary_size)
        self.log.write_validation(scores, time.monotonic() - begin, is_best=is_best)
        if is_best:
            run.workers.on_chief(run.best.save, progress.step)
        run.workers.on_chief(files.write_csv, run.run_folder.validations_path, progress.validations)
        self.log.logged_at += time.monotonic() - begin  # as if the steps had followed each other

    def save(self) -> None:
        """Writes a checkpoint."""
        self.check_weights()
        self.run.progress.seconds = time.monotonic() - self._started
        self.run.workers.on_chief(self.run.recent.save, self.run.progress.step)
        self.stopping.saved()

    def collect(self) -> None:
        """Waits for the pending steps. Raises RunError if too many updates in a row were not finite, and so skipped."""
        progress = self.run.progress
        for step, tensor, position in self.pending:
            result = UpdateResult.read(tensor)
            self.log.results.append(result)
            progress.add_result(result)
            if progress.bad_steps > self.run.config.training.max_bad_steps:
                path = self._write_batches(step, position)
                problem = f"the loss or its gradient is not finite at step {step}, whose batch is in {path}"
                raise self._not_finite(problem)
        self.pending.clear()

    def check_weights(self) -> None:
        """Waits for the pending steps. Raises as `collect`, and on all workers if weights are not finite."""
        self.collect()
        with self.run.workers.barrier():
            if not all(np.isfinite(variable.numpy()).all() for variable in self.run.model.trainable_variables):
                raise self._not_finite(f"the weights are not finite at step {self.run.progress.step}")

    def _write_batches(self, step: int, position: Position) -> str:
        """Writes the batches of a step, the first of which has this position, to a file; returns its path."""
        run = self.run
        batches = itertools.islice(run.batches.stream(*position), run.config.training.accumulate)
        arrays: dict[str, Any] = {}
        for number, ((source, target), _) in enumerate(batches):
            arrays |= {f"source_{number}": source, f"target_{number}": target}
        content, path = io.BytesIO(), os.path.join(run.folder, f"bad_step-{step}.npz")
        np.savez(content, **arrays)
        if run.workers.is_chief:
            files.write(path, content.getvalue())
        return path

    def _not_finite(self, problem: str) -> RunError:
        latest = self.run.recent.latest_checkpoint or "none"
        return RunError(f"{self.run.folder}: {problem}; the last checkpoint is {latest}; {_ADVICE}")

    def _check_end(self) -> None:
        """Raises RunError if the run ended without having learned anything."""
        if diverged := self.run.progress.diverged:
            raise RunError(f"{self.run.folder}: diverged: {diverged}; {_ADVICE}")


class Stopping:
    """Decides whether training stops, and whether a checkpoint is due, in the same training step on all workers."""

    received: signal.Signals | None = None  # the signal that this process got
    agreed: signal.Signals | None = None  # the signal that all workers stop for
    checkpoint_due = False  # whether the last checkpoint is older than `training.checkpoint_minutes`

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
        """Makes training stop after this step, and says so; a SIGINT after another signal raises KeyboardInterrupt."""
        if self.received and number == signal.SIGINT:  # schedulers repeat SIGTERM
            raise KeyboardInterrupt
        if not self.received:
            self.received = signal.Signals(number)
            advice = "; Ctrl-C again stops at once" if number == signal.SIGINT else ""
            line = f"\n{self.received.name}: stopping soon, with a checkpoint{advice}\n"
            with contextlib.suppress(OSError):  # Ctrl-C also ends what may read the output, such as `tee`
                os.write(2, line.encode())  # standard error; a print may be what the signal interrupts

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
