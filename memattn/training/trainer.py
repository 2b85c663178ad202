"""The training loop of a run folder, which can be stopped and resumed anywhere.

`opening.open_run` makes all that the loop needs. On several machines, every worker executes the loop; what only the
chief does, and how all take the same decisions, is in `distribution.Workers`.
"""

import itertools
import time

import tensorflow as tf

from memattn import console
from memattn.config import Config
from memattn.training.distribution import Workers, losing_workers
from memattn.training.opening import open_run
from memattn.training.optimizers import learning_rate
from memattn.training.reporting import Log, PendingStep
from memattn.training.stopping import Stopping

_PROGRESS_SECONDS = 0.25  # least time between two drawings of the progress line


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
        self.run = open_run(config, run_dir, Workers(strategy))
        self.log = Log(self.run)
        self.stopping = Stopping(self.run.workers, config.training.checkpoint_minutes)
        self._started = time.monotonic() - self.run.progress.seconds  # as if the run had never been stopped

    def train(self) -> int:
        """Trains to the end or until a signal; returns the process' exit status."""
        run, progress, log = self.run, self.run.progress, self.log
        log.introduce()
        if progress.finished:
            if progress.best is None:
                log.say(f"the best checkpoint is lost: the weights of step {progress.step:,} replace it")
                run.save_best()
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
            self.log.add(PendingStep(progress.step + 1, result, progress.position))
            progress.add_step(batches, positions[-1])
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
        scores = run.scores(self.stopping.is_requested)
        if scores is None:
            self.stopping.stop()
            return
        progress.seconds = time.monotonic() - self._started
        is_best = progress.add_validation(run.config.training, scores, run.model.vocabulary_size)
        self.log.write_validation(scores, time.monotonic() - begin, is_best=is_best)
        run.write_validation(is_best=is_best)
        self.log.leave_out(time.monotonic() - begin)

    def save(self) -> None:
        """Writes a checkpoint."""
        self.log.settle()
        self.run.progress.seconds = time.monotonic() - self._started
        self.run.save()
        self.stopping.saved()
