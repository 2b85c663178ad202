"""The training loop of a run folder, which can be stopped and resumed anywhere.

A training step, in `Trainer._loop`, goes through these parts:

1. `data.batches.TrainingBatches` yields the next batches of sources and targets, and the place after them.
2. `schedules.learning_rate` gives the rate; `step.TrainingStep` starts the update and does not wait for it.
3. `progress.Progress`, which checkpoints hold beside the weights, counts the step and notes the place in the data.
4. `reporting.StepLog` keeps the pending result; it waits for results before a line of output, a validation or a
   checkpoint.
5. `stopping.Stopping` lets the workers agree whether a signal came, or a checkpoint is due by the clock.
6. `validation.Validation` scores the weights, if it is time; `Progress` decides what follows from the scores.
7. `runs.checkpoints.manager` writes a checkpoint, if it is time or training ends.

`opening.open_run` makes all that the loop needs; `divergence` ends runs whose weights or loss are useless.
"""

import contextlib
import itertools
import math
import shlex
import time

import tensorflow as tf

from memattn import console, files
from memattn.config import Config
from memattn.runs.run import Run
from memattn.training import distribution, divergence, reporting
from memattn.training.opening import claimed, open_run
from memattn.training.reporting import Events, PendingStep, StepLog
from memattn.training.schedules import learning_rate
from memattn.training.stopping import Stopping

_PROGRESS_SECONDS = 0.25  # least time between two drawings of the progress line
_PICTURE_SECONDS = 30.0  # least time between two pictures; drawing one takes up to a second


def train(config: Config, run_dir: str, strategy: tf.distribute.Strategy) -> int:
    """Trains a config in a run folder, resuming if it was stopped; returns the process' exit status.

    Raises ConfigError, DataError, RunError, LostWorkerError, OSError, each with a one-line message for the user.
    """
    with distribution.losing_workers(strategy, run_dir):
        return Trainer(config, run_dir, strategy).train()


class Trainer:
    """The training of one run folder.

    Attributes:
      run: model, data, progress and checkpoints.
      step_log: results of training steps.
      stopping: signals and the clock of checkpoints.
    """

    def __init__(self, config: Config, run_dir: str, strategy: tf.distribute.Strategy):
        self.run = open_run(config, run_dir, strategy)
        self._events = Events()
        self.step_log = StepLog(self.run, self._events)
        self.stopping = Stopping(strategy, config.training.checkpoint_minutes)
        self._started = time.monotonic() - self.run.progress.seconds  # as if the run had never been stopped
        self._drawn_at = time.monotonic()

    def train(self) -> int:
        """Trains to the end or until a signal; returns the process' exit status."""
        run, progress = self.run, self.run.progress
        self._introduce()
        if progress.finished:
            if progress.best is None:
                run.say(f"the best checkpoint is lost: the weights of step {progress.step:,} replace it")
                distribution.by_chief(run.strategy, lambda: run.best.save(progress.step))
            run.say(f"already finished: {progress.finished} ({run.restored})")
            divergence.check_end(run)
            return 0
        with self.stopping.listening(), contextlib.ExitStack() as stack:
            distribution.by_chief(run.strategy, lambda: self._claim(stack))
            if run.restored:
                run.say(f"resuming from {run.restored}")
            if run.step.jit_compile:
                run.say(f"compiling for {len(run.batches.widths)} padded lengths: the first steps take longer")
            if run.is_chief:
                stack.enter_context(console.showing(self.step_log.progress_parts))
            self._loop()
        if self.stopping.agreed:
            run.say(f"stopped by {self.stopping.agreed.name} at step {progress.step:,}; the same command resumes it")
            return 128 + self.stopping.agreed
        divergence.check_end(run)
        best = progress.best[0] if progress.best else None
        run.say(reporting.end_line(progress.finished, run.config.training.metric, best))
        run.say(f"evaluate with: memattn-eval --run_dir {shlex.quote(run.folder)}")
        return 0

    def _loop(self) -> None:
        """Takes training steps until the run is finished or a signal stops it."""
        run, progress, training = self.run, self.run.progress, self.run.config.training
        if progress.validation_due:  # a signal came before its end
            self.validate()
            if progress.finished:
                self.save()
        stream = run.batches.stream(*progress.place)
        while not progress.finished and not self.stopping.agreed:
            batches, places = zip(*itertools.islice(stream, training.accumulate), strict=True)
            rate = learning_rate(training, progress.step, progress.decays)
            result = run.step(batches, progress.step, rate)
            place = progress.place
            progress.add_step(batches, places[-1])
            self.step_log.add(PendingStep(progress.step, result, place))
            console.redraw(after=_PROGRESS_SECONDS)
            checkpoint_due = self.stopping.agree(progress.step)
            is_last = progress.step == training.max_steps
            if is_last or progress.step % training.log_every == 0:
                self.step_log.write()
            progress.validation_due = is_last or progress.step % training.validate_every == 0
            if progress.validation_due and not self.stopping.agreed:
                self.validate()
            is_end = progress.finished or self.stopping.agreed
            if is_end or checkpoint_due or progress.step % training.checkpoint_every == 0:
                self.save()

    def validate(self) -> None:
        """Scores the weights, and notes what follows. A validation that a signal to the chief interrupts stays due."""
        run, progress, training = self.run, self.run.progress, self.run.config.training
        self.step_log.collect()
        begin = time.monotonic()
        console.redraw()
        distribution.together(run.strategy, self._check)
        scores = run.validation.chiefs_scores(run.strategy, lambda: self.stopping.received is not None)
        if scores is None:
            self.stopping.stop()
            return
        progress.validation_due = False
        progress.seconds = time.monotonic() - self._started
        is_best = progress.add_validation(training, scores)
        run.say(reporting.validation_line(progress.step, scores, time.monotonic() - begin, is_best=is_best))
        self._events.record("validation", scores, progress.step)
        distribution.by_chief(run.strategy, self._show_example)
        if progress.decay(training):
            rate = learning_rate(training, progress.step, progress.decays)
            run.say(f"no better for {progress.stalled} validations: the learning rate is now {rate:.3g}")
        if is_best:
            distribution.by_chief(run.strategy, lambda: run.best.save(progress.step))
        progress.end(training, scores, run.model.vocabulary_size)
        path = Run(run.folder).validations_path
        distribution.by_chief(run.strategy, lambda: files.write_csv(path, progress.validations))
        self.step_log.leave_out(time.monotonic() - begin)

    def _show_example(self) -> None:
        """Prints and records a sentence with its translation; now and then, also draws their alignment."""
        validation, step = self.run.validation, self.run.progress.step
        lines = reporting.example_lines(validation.example)
        for line in lines:
            self.run.say(f"  {line}")
        self._events.record_text("validation/example", lines, step)
        if time.monotonic() - self._drawn_at >= _PICTURE_SECONDS and (png := validation.draw_example()):
            self._events.record_picture("validation/alignment", png, step)
            self._drawn_at = time.monotonic()

    def save(self) -> None:
        """Writes a checkpoint if `_check` raises nothing on any worker."""
        run, progress = self.run, self.run.progress
        self.step_log.collect()
        progress.seconds = time.monotonic() - self._started
        distribution.together(run.strategy, self._check)
        distribution.by_chief(run.strategy, lambda: run.recent.save(progress.step))
        self.stopping.saved()

    def _check(self) -> None:
        """Raises the error of a failed write of events, or RunError for weights that are not finite, on this worker."""
        if self._events.failure:
            raise self._events.failure
        divergence.check_weights(self.run)

    def _introduce(self) -> None:
        """Prints what is trained, and which weights it starts with."""
        run, training = self.run, self.run.config.training
        parameters = sum(math.prod(variable.shape) for variable in run.model.trainable_variables)
        run.say(f"{run.folder}: {parameters:,} parameters, {run.batches.pairs:,} training pairs")
        if left_out := len(run.batches.corpus) - run.batches.pairs:
            run.say(f"{left_out:,} pairs are left out: longer than data.max_source_length or data.max_target_length")
        if run.validation.problem:
            run.say(f"{run.config.data.path}: {run.validation.problem}; where it is 0, exact match decides")
        if note := reporting.note_on_settings(run.config, run.batches.pairs):
            run.say(note)
        if training.init_from and not run.progress.step:
            run.say(f"starting with the best weights of {training.init_from}")

    def _claim(self, stack: contextlib.ExitStack) -> None:
        """Locks the run folder and opens the file of events until the stack is closed."""
        stack.enter_context(claimed(self.run))
        stack.enter_context(self._events.written_to(self.run.folder))
