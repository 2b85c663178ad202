"""Opens a run folder for training: reads the data, builds the model, and makes the folder or resumes the run in it."""

import contextlib
import dataclasses
import hashlib
import json
import os
from typing import Any

import tensorflow as tf

from memattn import config as configs
from memattn import console
from memattn.config import Config
from memattn.data import corpus, task_corpus
from memattn.data import tokenizer as tokenizers
from memattn.data.batches import TrainingBatches
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import RunError
from memattn.models.interface import Model
from memattn.runs import building, checkpoints, run_folder
from memattn.training import distribution, resuming, starting
from memattn.training.progress import Progress
from memattn.training.resuming import RunCheckpoints
from memattn.training.schedules import depends_on_max_steps
from memattn.training.starting import Start
from memattn.training.step import TrainingStep
from memattn.training.validation import Validation


@dataclasses.dataclass(frozen=True)
class OpenRun:
    """A run that is ready to train.

    Attributes:
      config: config of the run.
      folder: path of the run folder.
      strategy: devices of the training.
      is_chief: whether this process writes the run folder.
      batches: training data.
      model: model with initial weights, or with those of the checkpoint that the run resumes from.
      step: updates the model.
      validation: scores the model.
      progress: progress of the run so far, the same on every worker.
      saved: checkpoints of the run.
    """

    config: Config
    folder: str
    strategy: tf.distribute.Strategy
    is_chief: bool
    batches: TrainingBatches
    model: Model
    step: TrainingStep
    validation: Validation
    progress: Progress
    saved: RunCheckpoints

    def say(self, line: str) -> None:
        """Prints a line, once for all workers."""
        if self.is_chief:
            console.say(line)


def open_run(config: Config, folder: str, strategy: tf.distribute.Strategy) -> OpenRun:
    """Opens a run folder. All workers must read the same data, and must see the same checkpoints.

    Raises ConfigError, DataError, RunError, OSError.
    """
    inputs = distribution.together(strategy, lambda: _read(config, folder))
    _compare(inputs, folder, strategy)
    model, step = _build(config, inputs, strategy)
    validation = distribution.together(strategy, lambda: Validation(config, model, inputs.vocabulary, inputs.tokenizer))
    distribution.by_chief(strategy, lambda: _make_folder(config, folder, inputs))
    progress = Progress()
    saved = distribution.together(strategy, lambda: _restore(config, folder, model, step, progress, inputs.start))
    progress.resume(config.training)
    _share_progress(progress, folder, strategy)
    is_chief = distribution.is_chief(strategy)
    return OpenRun(config, folder, strategy, is_chief, inputs.batches, model, step, validation, progress, saved)


@dataclasses.dataclass(frozen=True)
class _Inputs:
    """Data and trained models that a run is made from.

    Attributes:
      longest_source: length of the longest source that the model knows, in tokens or vectors.
      memory_line: what `TrainingBatches.memory_line` returns, for active memory; None for other models.
      start: trained models that the run takes weights from.
      newest_step: step of the newest checkpoint in the run folder, -1 if there is none.
      checksum: checksum of the training data.
      digest: 48 bits of a checksum of the config and all data.
    """

    vocabulary: Vocabulary
    tokenizer: Tokenizer
    batches: TrainingBatches
    longest_source: int
    memory_line: tuple[float, float] | None
    start: Start
    newest_step: int
    checksum: str
    digest: int


def _read(config: Config, folder: str) -> _Inputs:
    """Reads the inputs of a run, checks that they can be used, and writes the corpus of a task if it does not exist."""
    steps = [checkpoints.step_of(path) for path in checkpoints.listed(os.path.join(folder, run_folder.CHECKPOINTS))]
    path = config.data.path
    if config.data.generated is not None:
        task_corpus.prepare(config.data.generated, path)
    corpus.check_folder(path)
    vocabulary, tokenizer = corpus.read_vocabulary(os.path.join(path, corpus.VOCABULARY)), tokenizers.read(path)
    batches = _batches(config, vocabulary)
    facts = batches.corpus.source.facts()
    start = starting.read(config, vocabulary, tokenizer, facts, steps[-1] if steps else None)
    longest_source = batches.longest_source
    if config.training.init_from:  # Eq. 10 keeps the S that the weights were trained with
        longest_source = start.initial.max_source_length if start.initial else run_folder.longest_source(folder)
    checksum = batches.corpus.checksum()
    contents = configs.dump(config), str(vocabulary), json.dumps(tokenizer.files(), sort_keys=True), checksum
    digest = hashlib.sha256("\0".join(contents).encode("utf-8")).digest()
    return _Inputs(
        vocabulary=vocabulary,
        tokenizer=tokenizer,
        batches=batches,
        longest_source=longest_source,
        memory_line=batches.memory_line() if config.model.has_memory_length else None,
        start=start,
        newest_step=steps[0] if steps else -1,
        checksum=checksum,
        digest=int.from_bytes(digest[:6], "big"),  # workers compare it as a float64, which is exact up to 53 bits
    )


def _batches(config: Config, vocabulary: Vocabulary) -> TrainingBatches:
    data, training = config.data, config.training
    return TrainingBatches(
        corpus.read_corpus(data.path, "train", vocabulary, data.source),
        batch_size=training.batch_size,
        batch_type=training.batch_type,
        num_buckets=data.num_buckets,
        seed=training.seed,
        max_source_length=data.max_source_length,
        max_target_length=data.max_target_length,
    )


def _compare(inputs: _Inputs, folder: str, strategy: tf.distribute.Strategy) -> None:
    """Raises RunError unless all workers have read the same data and checkpoints."""
    ours = [inputs.digest, inputs.newest_step]
    chiefs = distribution.numbers_of_chief(strategy, lambda: ours, len(ours))
    data_differ, checkpoints_differ = distribution.on_any_worker(
        strategy, [value != chiefs_value for value, chiefs_value in zip(ours, chiefs, strict=True)]
    )
    if data_differ:
        raise RunError(f"{folder}: the workers have different configs or data; start all with the same")
    if checkpoints_differ:
        raise _other_checkpoints(folder)


def _other_checkpoints(folder: str) -> RunError:
    return RunError(f"{folder}: the workers see different checkpoints in it; all must share the folder")


def _build(config: Config, inputs: _Inputs, strategy: tf.distribute.Strategy) -> tuple[Model, TrainingStep]:
    """Builds the model with the weights that training starts with, and its training step."""
    tf.keras.utils.set_random_seed(config.training.seed)
    with strategy.scope():
        width = inputs.batches.corpus.source.facts().get("source_features")
        model = building.build_model(config, len(inputs.vocabulary), inputs.longest_source, source_features=width)
        building.set_memory_line(model, inputs.memory_line)
        teacher = starting.copied(inputs.start.teacher)  # every device needs its weights
        step = TrainingStep(model, config.training, strategy, teacher)
    if teacher and config.training.teacher_weight:
        starting.check_contexts(model, teacher)
    inputs.start.set_weights(model)
    return model, step


def _make_folder(config: Config, folder: str, inputs: _Inputs) -> None:
    facts: dict[str, Any] = {
        "max_source_length": inputs.longest_source,
        "training_pairs": inputs.batches.pairs,
        "checksum": inputs.checksum,
        **inputs.batches.corpus.source.facts(),
    }
    if inputs.memory_line:
        facts[run_folder.MEMORY_LINE] = list(inputs.memory_line)
    may_grow = not depends_on_max_steps(config.training)
    is_new = not os.path.exists(os.path.join(folder, run_folder.CONFIG))
    lock = run_folder.locked(folder) if is_new else contextlib.nullcontext()  # checking an existing one writes nothing
    with lock:
        run_folder.create(folder, config, inputs.vocabulary, facts, inputs.tokenizer.files(), may_grow=may_grow)


def _restore(
    config: Config, folder: str, model: Model, step: TrainingStep, progress: Progress, start: Start
) -> RunCheckpoints:
    """Restores the newest readable checkpoint. Raises RunError if the run would start over from other weights."""
    saved = resuming.restore(folder, model, step, progress, config.training.keep_checkpoints)
    if saved.restored is None and not start.is_new and (config.training.init_from or config.training.teacher):
        problem = "no checkpoint can be read, and training would start again from random weights"
        raise RunError(f"{folder}: {problem}, not from those of another run; move the folder away to start over")
    return saved


def _share_progress(progress: Progress, folder: str, strategy: tf.distribute.Strategy) -> None:
    """Gives every worker the chief's progress. Raises RunError if a worker restored another checkpoint."""
    (step,) = distribution.numbers_of_chief(strategy, lambda: [progress.step], 1)
    if distribution.on_any_worker(strategy, [progress.step != step]) == [True]:
        raise _other_checkpoints(folder)
    content = progress.serialize().encode("utf-8")
    (size,) = distribution.numbers_of_chief(strategy, lambda: [len(content)], 1)
    codes = distribution.numbers_of_chief(strategy, lambda: list(content), int(size))
    progress.deserialize(bytes(map(int, codes)).decode("utf-8"))
