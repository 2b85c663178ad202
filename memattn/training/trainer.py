"""The training loop of a run folder, which can be stopped and resumed anywhere."""

import contextlib
import hashlib
import io
import itertools
import json
import math
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from memattn import config as configs
from memattn import console, files, resources
from memattn.config import Config, TrainingConfig
from memattn.data import corpus, task_corpus
from memattn.data import tokenizer as text
from memattn.data.batches import TrainingBatches
from memattn.data.vocabulary import PAD
from memattn.errors import ConfigError, RunError
from memattn.runs import checkpoints, run_folder
from memattn.runs.checkpoints import Checkpoint
from memattn.training import distribution, needs, reporting, starting
from memattn.training.progress import Progress
from memattn.training.schedules import depends_on_max_steps, learning_rate
from memattn.training.step import StepResult, TrainingStep
from memattn.training.validation import Validation

_EVENTS = "events"
_HELPS = "a smaller training.learning_rate or training.clip_norm may help"
MOST_PENDING = 100  # steps that may run before training waits for their results


class Trainer:
    """The training loop of one run folder."""

    def __init__(self, config: Config, run_dir: str, strategy: tf.distribute.Strategy):
        self.config, self.run_dir, self.strategy = config, run_dir, strategy
        self.chief = distribution.is_chief(strategy)
        self.failure = None  # of this process, raised where all workers can end
        self._read()
        self._make_model()
        self._open_run()
        self._agree_on_progress()
        self.pending = []  # results of steps not waited for, with their batches
        self.results = []  # results of the others since the last log line
        self.signal = self.stopping = None  # received by this process; agreed on by all workers
        self.learning_rate = config.training.learning_rate  # of the last step

    def _read(self) -> None:
        """Reads all that the model is made from.

        Making it needs the workers together. So first, they agree that each could read, and that they read the same.
        """
        same = []

        def read():
            self._read_data()
            self._read_models()
            files_of_text = json.dumps(self.text.files(), sort_keys=True)
            self.checksum = self.batches.corpus.checksum()
            facts = configs.dump(self.config), str(self.vocabulary), files_of_text, self.checksum
            digest = hashlib.sha256("\0".join(facts).encode("utf-8")).digest()
            newest = checkpoints.step_of(self.written[0]) if self.written else -1
            same.extend([int.from_bytes(digest[:6], "big"), newest])  # which a float64 holds
            return same

        chiefs = distribution.together(self.strategy, read, 2)
        differ = [bool(own != told) for own, told in zip(same, chiefs, strict=True)]
        data_differ, checkpoints_differ = distribution.on_any_worker(self.strategy, differ)
        if data_differ:
            raise RunError(f"{self.run_dir}: the workers have different configs or data; start all with the same")
        if checkpoints_differ:
            raise self._sees_others()

    def _sees_others(self) -> RunError:
        return RunError(f"{self.run_dir}: the workers see different checkpoints in it; all must share the folder")

    def _read_data(self) -> None:
        data, training = self.config.data, self.config.training
        if data.generated is not None:
            needs.check_task(self.config)
            try:
                task_corpus.prepare(data.generated, data.path)
            except ValueError as error:
                raise ConfigError(str(error)) from error
        corpus.check_folder(data.path)
        needs.check_text(data.path)
        self.vocabulary = corpus.read_vocabulary(os.path.join(data.path, corpus.VOCABULARY))
        self.text = text.read(data.path)
        self.batches = TrainingBatches(
            corpus.read_corpus(data.path, "train", self.vocabulary),
            batch_size=training.batch_size,
            batch_type=training.batch_type,
            num_buckets=data.num_buckets,
            seed=training.seed,
            max_source_length=data.max_source_length,
            max_target_length=data.max_target_length,
        )
        replicas, tokens = self.strategy.num_replicas_in_sync, len(self.vocabulary)
        lines = needs.check_model(self.config.model, tokens)
        lines += needs.check_batches(self.config, self.batches, tokens, replicas)
        for line in lines:
            self._say(f"{self.run_dir}: {line}")

    def _read_models(self) -> None:
        """Reads the trained models that the run starts with or learns from."""
        self.written = checkpoints.listed(os.path.join(self.run_dir, run_folder.CHECKPOINTS))
        oldest_step = checkpoints.step_of(self.written[-1]) if self.written else None
        self.start = starting.read(self.config, self.vocabulary, self.text, oldest_step)
        if self.config.decoding.num_slots:
            raise ConfigError("decoding.num_slots: is for a trained model; training and its validations use all slots")
        self.longest_source = self.batches.longest_source
        if self.config.training.init_from:  # S of Eq. 10 stays that of its weights
            initial = self.start.initial
            self.longest_source = initial.max_source_length if initial else run_folder.longest_source(self.run_dir)

    def _make_model(self) -> None:
        """Builds the model with the weights that it starts with, and what updates and validates it."""
        config, teacher = self.config, self.start.teacher
        tf.keras.utils.set_random_seed(config.training.seed)
        with self.strategy.scope():
            self.model = run_folder.build_model(config, len(self.vocabulary), self.longest_source)
            self.step = TrainingStep(self.model, config.training, self.strategy, teacher)
        if teacher and config.training.teacher_weight:
            starting.check_contexts(self.model, teacher)
        self.start.give_weights(self.model)
        self.start = None  # no longer needed

        def read_validation():
            self.validation = Validation(config, self.model, self.vocabulary, self.text)
            return []

        distribution.together(self.strategy, read_validation)

    def _open_run(self) -> None:
        """Makes the run folder, or restores the run in it."""

        def make_folder():
            sizes = {"max_source_length": self.longest_source, "training_pairs": self.batches.pairs}
            facts = {**sizes, "checksum": self.checksum}
            may_grow = not depends_on_max_steps(self.config.training)
            run_folder.create(self.run_dir, self.config, self.vocabulary, facts, self.text.files(), may_grow=may_grow)

        self._by_chief(make_folder)
        distribution.together(self.strategy, self._restore)

    def _restore(self) -> list[float]:
        config, run_dir = self.config, self.run_dir
        self.progress = Progress()
        checkpoint = Checkpoint(self.model, self.step.optimizer, progress=self.progress, step=self.step.state)
        folder = os.path.join(run_dir, run_folder.CHECKPOINTS)
        try:
            self.restored = checkpoints.restore(checkpoint, folder)
        except RunError as error:
            raise RunError(f"{error}; move the folder away to start over") from error
        self.progress.go_on(config.training)
        self.manager = checkpoints.Kept(checkpoint.trackable, folder, config.training.keep_checkpoints)
        folder = os.path.join(run_dir, run_folder.BEST)
        if not checkpoints.listed(folder):  # if it was removed
            self.progress.best = None
        self.best = checkpoints.Kept(Checkpoint(self.model).trackable, folder, 1)
        return []

    def _by_chief(self, work: Callable[[], Any]) -> None:
        """Runs `work` on the first worker while the others wait; if it fails, all end."""

        def work_alone():
            work()
            return []  # no numbers for the others

        distribution.of_chief(self.strategy, work_alone)

    def _agree_on_progress(self) -> None:
        """Gives every worker the first one's progress. Raises RunError if a worker restored another checkpoint."""
        (step,) = distribution.of_chief(self.strategy, lambda: [self.progress.step], 1)
        if any(distribution.on_any_worker(self.strategy, [bool(self.progress.step != step)])):
            raise self._sees_others()
        progress = self.progress.serialize().encode("utf-8")
        (size,) = distribution.of_chief(self.strategy, lambda: [len(progress)], 1)
        codes = distribution.of_chief(self.strategy, lambda: list(progress), int(size))
        self.progress.deserialize(bytes(map(int, codes)).decode("utf-8"))

    def train(self) -> int:
        """Trains to the end or until a signal; returns the process' exit status."""
        progress, training = self.progress, self.config.training
        parameters = sum(math.prod(variable.shape) for variable in self.model.trainable_variables)
        self._say(f"{self.run_dir}: {parameters:,} parameters, {self.batches.pairs:,} training pairs")
        if self.validation.problem:
            self._say(f"{self.config.data.path}: {self.validation.problem}; where it is 0, exact match decides")
        if training.init_from and not progress.step:
            self._say(f"starting with the best weights of {training.init_from}")
        if progress.finished:
            if progress.best is None:  # the best checkpoint is lost: use the last weights
                self._by_chief(lambda: self.best.save(checkpoint_number=progress.step))
            self._say(f"already finished: {progress.finished} ({self.restored})")
            self._check_end()
            return 0
        heard = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        former = {number: signal.signal(number, self.on_signal) for number in heard}
        self.saved_at = self.logged_at = time.monotonic()
        self.started = time.monotonic() - progress.seconds
        try:
            with contextlib.ExitStack() as stack:
                self._by_chief(lambda: self._claim(stack))
                if self.restored:
                    self._say(f"resuming from {self.restored}")
                if self.step.jit_compile:
                    self._say(f"compiling for {len(self.batches.widths)} padded lengths: the first steps take longer")
                self._loop(training)
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
        if self.stopping:
            self._say(f"stopped by {self.stopping.name} at step {progress.step:,}; the same command resumes it")
            return 128 + self.stopping
        self._check_end()
        self._say(
            f"{reporting.of_end(progress.finished, training.metric, progress.best and progress.best[0])}\n"
            f"evaluate with: python -m memattn.eval --run_dir {shlex.quote(self.run_dir)}"
        )
        return 0

    def _claim(self, stack: contextlib.ExitStack) -> None:
        """Locks the run folder, checks that it can be written, and opens its events."""
        stack.enter_context(run_folder.locked(self.run_dir))
        folders = [os.path.join(self.run_dir, name) for name in (run_folder.CHECKPOINTS, run_folder.BEST, _EVENTS)]
        for folder in (self.run_dir, *folders):
            with files.naming(folder):
                os.makedirs(folder, exist_ok=True)
                tempfile.TemporaryFile(dir=folder).close()
        state = tf.train.get_checkpoint_state(self.manager.directory)
        if state and state.model_checkpoint_path != self.manager.latest_checkpoint:
            raise RunError(f"{self.run_dir}: another training has just resumed it; start again")
        if not self.restored:
            needed = 12 * sum(math.prod(weight.shape) for weight in self.model.trainable_variables)
            resources.check_disk(needed, self.run_dir, "--run_dir", "a checkpoint")
        events = tf.summary.create_file_writer(os.path.join(self.run_dir, _EVENTS))
        stack.enter_context(contextlib.closing(events))
        stack.enter_context(events.as_default())

    def _say(self, line: str) -> None:
        if self.chief:
            console.say(line)

    def _loop(self, training: TrainingConfig) -> None:
        progress = self.progress
        if progress.validation_due:
            self.validate()
            if progress.finished:
                self.save()
        stream = self.batches.stream(progress.epoch, progress.window, progress.batch)
        while not progress.finished and not self.stopping:
            batches = list(itertools.islice(stream, training.accumulate))
            self.learning_rate = learning_rate(training, progress.step, progress.decays)
            ids = [ids for ids, _ in batches]
            self.pending.append((self.step(ids, progress.step, self.learning_rate), ids))
            progress.step += 1
            if len(self.pending) == MOST_PENDING:
                self._collect()
            checkpoint_due = self._ask()
            progress.epoch, progress.window, progress.batch = batches[-1][1]
            progress.examples += sum(int((source[:, 0] != PAD).sum()) for (source, _), _ in batches)
            if progress.step % training.log_every == 0 or progress.step == training.max_steps:
                self.log()
            progress.validation_due = (
                progress.step % training.validate_every == 0 or progress.step == training.max_steps
            )
            if progress.validation_due and not self.stopping:
                self.validate()
            if checkpoint_due or progress.finished or self.stopping or progress.step % training.checkpoint_every == 0:
                self.save()

    def _ask(self) -> bool:
        """Notes whether any worker got a signal; returns whether a checkpoint is due by the first worker's clock."""
        if not distribution.asks(self.strategy, self.progress.step):
            return False
        passed = time.monotonic() - self.saved_at
        due = self.chief and passed > 60 * self.config.training.checkpoint_minutes
        signalled, due = distribution.on_any_worker(self.strategy, [self.signal is not None, due])
        if signalled:
            self._stop()
        return due

    def _stop(self) -> None:
        self.stopping = self.signal or signal.SIGTERM  # another worker's

    def _collect(self) -> None:
        """Waits for pending steps. Raises RunError, and keeps a step's batch, if too many were not finite."""
        progress = self.progress
        for step, (result, batches) in enumerate(self.pending, progress.step - len(self.pending) + 1):
            self.results.append(StepResult.read(result))
            if self.results[-1].is_finite:
                progress.bad_steps = 0
                progress.add_loss(self.results[-1].loss, self.results[-1].tokens)
            else:
                progress.bad_steps += 1
            if progress.bad_steps > self.config.training.max_bad_steps:
                path = self._keep(batches, step)
                raise self._not_finite(
                    f"the loss or its gradient is not finite at step {step}, whose batch is in {path}"
                )
        self.pending.clear()

    def _keep(self, batches: list[tuple[np.ndarray, np.ndarray]], step: int) -> str:
        """Writes the batches of a step into the run folder; returns the path."""
        file, sides = io.BytesIO(), ("source", "target")
        np.savez(file, **{f"{sides[i]}_{n}": ids for n, batch in enumerate(batches) for i, ids in enumerate(batch)})
        path = os.path.join(self.run_dir, f"bad_step-{step}.npz")
        if self.chief:
            files.write(path, file.getvalue())
        return path

    def _check_worker(self) -> None:
        """Raises what this process could not do since the workers last met, or RunError for weights not finite."""
        if self.failure:
            raise self.failure
        if not all(np.isfinite(variable.numpy()).all() for variable in self.model.trainable_variables):
            raise self._not_finite(f"the weights are not finite at step {self.progress.step}")

    def _not_finite(self, problem: str) -> RunError:
        return RunError(
            f"{self.run_dir}: {problem}; the last checkpoint is {self.manager.latest_checkpoint or 'none'}; {_HELPS}"
        )

    def _check_end(self) -> None:
        """Raises RunError if the run has diverged."""
        if self.progress.diverged:
            raise RunError(f"{self.run_dir}: diverged: {self.progress.diverged}; {_HELPS}")

    def log(self) -> None:
        """Says what the steps since the last line came to."""
        self._collect()
        if not self.results:
            return
        now = time.monotonic()
        report = reporting.of_steps(
            self.results,
            step=self.progress.step,
            max_steps=self.config.training.max_steps,
            seconds=now - self.logged_at,
            learning_rate=self.learning_rate,
        )
        self.results.clear()
        self.logged_at = now
        for line in report.lines:
            self._say(line)
        self._record("train", report.scalars)

    def _record(self, prefix: str, scalars: dict[str, float]) -> None:
        try:
            for name, value in scalars.items():  # NumPy numbers: TensorFlow would cache every Python number
                tf.summary.scalar(f"{prefix}/{name}", np.float32(value), np.int64(self.progress.step))
        except (OSError, tf.errors.OpError) as error:
            self.failure = error  # of the first worker, which alone has events

    def validate(self) -> None:
        """Scores the weights, and decides what follows. A signal to the first worker interrupts it; it stays due."""
        progress, training = self.progress, self.config.training
        self._collect()
        begin = time.monotonic()
        names = self.validation.metrics
        interrupted, *values = distribution.together(self.strategy, self._scores, 1 + len(names))
        if interrupted:
            self._stop()
            return
        scores = dict(zip(names, values, strict=True))
        progress.validation_due = False
        progress.seconds = time.monotonic() - self.started
        better = progress.add_validation(training, scores)
        self._say(reporting.of_validation(progress.step, scores, time.monotonic() - begin, is_best=better))
        self._record("validation", scores)
        if progress.decay(training):
            rate = learning_rate(training, progress.step, progress.decays)
            self._say(f"no better for {progress.stalled} validations: the learning rate is now {rate:.3g}")
        if better:
            self._by_chief(lambda: self.best.save(checkpoint_number=progress.step))
        progress.end(training, scores, len(self.vocabulary))
        path = os.path.join(self.run_dir, "validation.csv")
        self._by_chief(lambda: files.write_csv(path, progress.validations))
        self.logged_at += time.monotonic() - begin

    def _scores(self) -> list[float]:
        """Whether a signal interrupted the validation, then its scores; the first worker's count."""
        self._check_worker()
        scores = self.validation.scores(lambda: self.signal is not None) if self.chief else None
        return [0.0, *scores.values()] if scores else [1.0, *[0.0] * len(self.validation.metrics)]

    def save(self) -> None:
        """Writes a checkpoint, if no worker has a reason against it."""
        self._collect()
        self.progress.seconds = time.monotonic() - self.started

        def save():
            self._check_worker()
            if self.chief:
                self.manager.save(checkpoint_number=self.progress.step)
            return []

        distribution.together(self.strategy, save)
        self.saved_at = time.monotonic()

    def on_signal(self, number: int, _: Any) -> None:
        """Makes training stop after this step; a second SIGINT ends the process at once."""
        if self.signal and number == signal.SIGINT:  # schedulers repeat SIGTERM
            sys.exit(128 + number)
        self.signal = signal.Signals(number)


def train(config: Config, run_dir: str, strategy: tf.distribute.Strategy) -> int:
    """Trains a config in a run folder, resuming if it was stopped; returns the process' exit status.

    Raises ConfigError, DataError, RunError, LostWorkerError, OSError, each with a one-line message for the user.
    """
    with distribution.losing_workers(strategy, run_dir):
        return Trainer(config, run_dir, strategy).train()
