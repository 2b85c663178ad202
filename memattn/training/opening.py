"""Opens a run folder for training: reads the data, builds the model, and makes the folder or resumes the run in it."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from memattn import config as configs
from memattn import files
from memattn.config import Config
from memattn.data import corpus, tasks
from memattn.data import tokenizer as tokenizers
from memattn.data.batches import TrainingBatches
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import RunError
from memattn.models.interface import Model
from memattn.runs import checkpoints
from memattn.runs.build import LENGTH_REGRESSION, build_model
from memattn.runs.checkpoints import Checkpoint
from memattn.runs.run import Run
from memattn.training import pretrained
from memattn.training.distribution import Workers
from memattn.training.optimizers import depends_on_max_steps
from memattn.training.pretrained import Pretrained
from memattn.training.progress import Progress
from memattn.training.step import TrainingStep
from memattn.training.validation import Validation

ADVICE = "a smaller training.learning_rate or training.clip_norm may help"


@dataclasses.dataclass(frozen=True)
class OpenRun:
    """A run that is ready to train.

    Attributes:
      config: config of the run.
      folder: path of the run folder.
      workers: the processes that train it.
      batches: training data.
      model: model with initial weights, or with those of the checkpoint that the run resumes from.
      step: updates the model.
      validation: scores the model.
      progress: progress of the run so far, the same on every worker.
      recent: the last checkpoints, from which training resumes: weights, optimizer, progress.
      best: the weights of the best validation.
      restored: path of the checkpoint that the run resumes from; None if there is none that can be read.
    """

    config: Config
    folder: str
    workers: Workers
    batches: TrainingBatches
    model: Model
    step: TrainingStep
    validation: Validation
    progress: Progress
    recent: tf.train.CheckpointManager
    best: tf.train.CheckpointManager
    restored: str | None

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Locks the run folder against other trainings, and checks that it can be written.

        Raises RunError if another process trains in it or has done so since the run was restored, OSError.
        """
        return self.workers.entered_on_chief(self._locked_folder())

    @contextlib.contextmanager
    def _locked_folder(self) -> Iterator[None]:
        folder = Run(self.folder)
        with folder.locked():
            for path in (self.folder, folder.checkpoints, folder.best, folder.events):
                files.make_folder(path)
            state = tf.train.get_checkpoint_state(self.recent.directory)
            if state and state.model_checkpoint_path != self.recent.latest_checkpoint:
                raise RunError(f"{self.folder}: another training has just resumed it; start again")
            folder.raise_max_steps(self.config)
            yield

    def scores(self, stop: Callable[[], bool]) -> dict[str, float] | None:
        """Returns the scores of the weights on the validation split; None if `stop()` became true on the chief."""
        return self.workers.on_chief(self.validation.scores, stop)

    def save(self) -> None:
        """Writes a checkpoint from which training resumes."""
        self.workers.on_chief(self.recent.save, self.progress.step)

    def save_best(self) -> None:
        """Writes the weights as those of the best validation."""
        self.workers.on_chief(self.best.save, self.progress.step)

    def write_validation(self, *, is_best: bool) -> None:
        """Writes validation.csv, and the weights if the last validation is the best so far."""
        if is_best:
            self.save_best()
        self.workers.on_chief(files.write_csv, Run(self.folder).validations_path, self.progress.validations)

    def check_end(self) -> None:
        """Raises RunError if the run ended without having learned anything."""
        if self.progress.diverged:
            raise RunError(f"{self.folder}: diverged: {self.progress.diverged}; {ADVICE}")


def open_run(config: Config, folder: str, workers: Workers) -> OpenRun:
    """Opens a run folder. All workers must read the same data, and must see the same checkpoints.

    Raises ConfigError, DataError, RunError, OSError.
    """
    other_data = f"{folder}: the workers have different configs or data; start all with the same"
    other_checkpoints = f"{folder}: the workers see different checkpoints in it; all must share the folder"
    with workers.barrier():
        inputs = _read(config, folder)
    workers.check_equal(inputs.contents(config), other_data)
    workers.check_equal(inputs.steps[:1], other_checkpoints)
    model, step = _build(config, inputs, workers.strategy)
    with workers.barrier():
        validation = Validation(config, model, inputs.vocabulary, inputs.tokenizer)
    workers.on_chief(_make_folder, config, folder, inputs)
    progress = Progress()
    with workers.barrier():
        saved = _restore(config, folder, model, step, progress, is_new=not inputs.steps)
    progress.resume(config.training)
    workers.check_equal(progress.step, other_checkpoints)
    progress.deserialize(workers.on_chief(progress.serialize))
    return OpenRun(config, folder, workers, inputs.batches, model, step, validation, progress, *saved)


class _Inputs(NamedTuple):
    """What a run is made from.

    Attributes:
      steps: training steps of the checkpoints in the run folder, newest first.
      metadata: content of corpus.json: what the model, and a training that resumes, must know about the training data.
    """

    steps: list[int]
    vocabulary: Vocabulary
    tokenizer: Tokenizer
    batches: TrainingBatches
    pretrained: Pretrained
    metadata: dict[str, Any]

    def contents(self, config: Config) -> list[Any]:
        """Returns all that must be the same on every worker."""
        return [configs.dump(config), str(self.vocabulary), self.tokenizer.files(), self.metadata]


def _read(config: Config, folder: str) -> _Inputs:
    """Reads the inputs of a run, and writes the corpus of a task if it does not exist."""
    steps = [checkpoints.step_of(path) for path in checkpoints.listed(Run(folder).checkpoints)]
    data, training = config.data, config.training
    if data.generated is not None:
        tasks.prepare(data.generated, data.path)
    corpus.check_folder(data.path)
    vocabulary = corpus.read_vocabulary(os.path.join(data.path, corpus.VOCABULARY))
    tokenizer = tokenizers.read(data.path)
    batches = TrainingBatches(
        corpus.read_corpus(data.path, "train", vocabulary, data.source),
        batch_size=training.batch_size,
        batch_type=training.batch_type,
        num_buckets=data.num_buckets,
        seed=training.seed,
        max_source_length=data.max_source_length,
        max_target_length=data.max_target_length,
    )
    source_metadata, longest = batches.corpus.source.metadata(), batches.longest_source
    models = pretrained.load(config, steps, vocabulary, tokenizer, source_metadata)
    if training.init_from:  # Eq. 10 keeps the S that the weights were trained with
        longest = models.initial.max_source_length if models.initial else Run(folder).metadata["max_source_length"]
    metadata = {
        "max_source_length": longest,
        "training_pairs": batches.pairs,
        "checksum": batches.corpus.checksum(),
        **source_metadata,
    }
    if config.model.has_memory_length:
        metadata[LENGTH_REGRESSION] = list(batches.length_regression())
    return _Inputs(steps, vocabulary, tokenizer, batches, models, metadata)


def _build(config: Config, inputs: _Inputs, strategy: tf.distribute.Strategy) -> tuple[Model, TrainingStep]:
    """Builds the model with the weights that training starts with, and its training step."""
    tf.keras.utils.set_random_seed(config.training.seed)
    with strategy.scope():
        model = build_model(config, len(inputs.vocabulary), inputs.metadata)
        teacher = inputs.pretrained.replicated_teacher(model, config.training.teacher_weight)
        step = TrainingStep(model, config.training, strategy, teacher)
    if not inputs.steps:
        inputs.pretrained.initialize(model)
    return model, step


def _make_folder(config: Config, folder: str, inputs: _Inputs) -> None:
    """Makes the run folder, or checks that an existing one is of the same config and data."""
    may_grow = not depends_on_max_steps(config.training)
    Run.create(folder, config, inputs.vocabulary, inputs.tokenizer, inputs.metadata, may_grow=may_grow)


def _restore(
    config: Config, folder: str, model: Model, step: TrainingStep, progress: Progress, *, is_new: bool
) -> tuple[tf.train.CheckpointManager, tf.train.CheckpointManager, str | None]:
    """Restores the newest readable checkpoint, if there is one; returns `recent`, `best`, `restored` of `OpenRun`.

    Raises RunError if checkpoints are listed, but none can be read, or if the run would start over from other weights.
    """
    recent_folder, best_folder = Run(folder).checkpoints, Run(folder).best
    checkpoint = Checkpoint(model, step.optimizer, progress=progress, step=step.state)
    try:
        restored = checkpoints.restore(checkpoint, recent_folder)
    except RunError as error:
        raise RunError(f"{error}; move the folder away to start over") from error
    if restored is None and not is_new and (config.training.init_from or config.training.teacher):
        problem = "no checkpoint can be read, and training would start again from random weights"
        raise RunError(f"{folder}: {problem}, not from those of another run; move the folder away to start over")
    if not checkpoints.listed(best_folder):  # no best checkpoint, or it was removed: the next validation writes one
        progress.best = None
    recent = checkpoints.manager(checkpoint, recent_folder, config.training.keep_checkpoints)
    return recent, checkpoints.manager(Checkpoint(model), best_folder, 1), restored
