"""Keeps the results of training steps until a report on them.

Training does not wait for a step's result: while the devices compute, further batches are prepared. Results are read
when a report, a validation or a checkpoint needs them, or when many are pending.
"""

import time
from typing import NamedTuple

import tensorflow as tf

from memattn import console
from memattn.training import divergence, reporting
from memattn.training.events import Events
from memattn.training.opening import OpenRun
from memattn.training.schedules import learning_rate
from memattn.training.step import UpdateResult

MOST_PENDING = 100  # steps that may run before training waits for their results


class PendingStep(NamedTuple):
    """A training step whose result is not read yet.

    Attributes:
      number: number of the step, from 1.
      result: the result that `TrainingStep` returned.
      place: epoch, window and batch of the first batch that the update was computed from.
    """

    number: int
    result: tf.Tensor
    place: tuple[int, int, int]


class StepLog:
    """The results of the steps since the last report.

    Attributes:
      pending: steps whose results are not read yet.
      results: results that no report has counted yet.
      logged_at: time of the last report; validations since then are not counted.
    """

    def __init__(self, run: OpenRun, events: Events):
        self._run, self._events = run, events
        self.pending: list[PendingStep] = []
        self.results: list[UpdateResult] = []
        self.logged_at = time.monotonic()
        self._scalars: dict[str, float] = {}  # those of the last report

    def add(self, step: PendingStep) -> None:
        """Notes a step that has been started. Raises as `collect`."""
        self.pending.append(step)
        if len(self.pending) == MOST_PENDING:
            self.collect()

    def collect(self) -> None:
        """Waits for the pending steps. Raises RunError if too many updates in a row were not finite, and so skipped."""
        progress = self._run.progress
        for step in self.pending:
            result = UpdateResult.read(step.result)
            self.results.append(result)
            if result.is_finite:
                progress.bad_steps = 0
                progress.add_loss(result.loss, result.tokens)
            else:
                progress.bad_steps += 1
            if progress.bad_steps > self._run.config.training.max_bad_steps:
                raise divergence.skipped_too_often(self._run, step.number, step.place)
        self.pending.clear()

    def write(self) -> None:
        """Records a report on the steps since the last one. Prints it, unless a terminal shows a line on progress."""
        self.collect()
        if not self.results:
            return
        now, training, progress = time.monotonic(), self._run.config.training, self._run.progress
        report = reporting.steps_report(
            self.results,
            step=progress.step,
            max_steps=training.max_steps,
            seconds=now - self.logged_at,
            learning_rate=learning_rate(training, progress.step - 1, progress.decays),
        )
        self.results.clear()
        self.logged_at = now
        if report.warning:
            self._run.say(report.warning)
        if report.line and not console.on_terminal():
            self._run.say(report.line)
        self._scalars = report.scalars or self._scalars
        self._events.record("train", report.scalars, progress.step)

    def progress_parts(self) -> list[str]:
        """Returns the parts of the line that a terminal shows. It is up to date but for results that are not read."""
        return reporting.progress_parts(self._run.config.training, self._run.progress, self._scalars)

    def leave_out(self, seconds: float) -> None:
        """Excludes time without training steps from the speed in the next report."""
        self.logged_at += seconds
