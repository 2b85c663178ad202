"""Opens a run folder for training: reads the data, builds the model, and makes the folder or resumes the run in it.

`open_run` calls the private functions in their order. `claimed` locks the folder for the training that follows.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any, cast

import tensorflow as tf

from memattn import config as configs
from memattn import console, files
from memattn.config import Config
from memattn.data import corpus, tasks
from memattn.data import tokenizer as tokenizers
from memattn.data.batches import TrainingBatches
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, RunError
from memattn.models.interface import Model
from memattn.models.seq2seq import Seq2Seq
from memattn.runs import building, checkpoints
from memattn.runs.checkpoints import Checkpoint
from memattn.runs.run import MEMORY_LINE, Run
from memattn.training import distribution
from memattn.training.progress import Progress
from memattn.training.schedules import depends_on_max_steps
from memattn.training.step import TrainingStep
from memattn.training.validation import Validation

_MAY_DIFFER = {"dropout", "init_scale", "spec_augment"}  # model keys that act only in initialization or training
# Model keys in which student and teacher must agree.
_ENCODER_KEYS = {
    *("kind", "encoder", "layers", "units", "encoder_layers", "encoder_units", "encoder_reduce"),
    *("embedding_size", "tie_embeddings"),
}
_ENCODER_PATHS = ("encoder/", "source_embedding/")  # prefixes of the paths of an encoder's weights


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
      recent: the last checkpoints, from which training resumes: weights, optimizer, progress.
      best: the weights of the best validation.
      restored: path of the checkpoint that the run resumes from; None if there is none that can be read.
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
    recent: tf.train.CheckpointManager
    best: tf.train.CheckpointManager
    restored: str | None

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
    saved = distribution.together(strategy, lambda: _restore(config, folder, model, step, progress, inputs.is_new))
    progress.resume(config.training)
    _share_progress(progress, folder, strategy)
    is_chief = distribution.is_chief(strategy)
    return OpenRun(config, folder, strategy, is_chief, inputs.batches, model, step, validation, progress, *saved)


@dataclasses.dataclass(frozen=True)
class _Inputs:
    """Data and trained models that a run is made from.

    Attributes:
      longest_source: length of the longest source that the model knows, in tokens or vectors.
      memory_line: what `TrainingBatches.length_regression` returns, for active memory; None for other models.
      initial: model of `training.init_from`; None without it, and for a run that resumes.
      teacher: model of `training.teacher`; None without it, and once the run no longer needs it.
      newest_step: step of the newest checkpoint in the run folder, -1 if there is none.
      checksum: checksum of the training data.
      digest: 48 bits of a checksum of the config and all data.
    """

    vocabulary: Vocabulary
    tokenizer: Tokenizer
    batches: TrainingBatches
    longest_source: int
    memory_line: tuple[float, float] | None
    initial: Model | None
    teacher: Seq2Seq | None
    newest_step: int
    checksum: str
    digest: int

    @property
    def is_new(self) -> bool:
        """Whether the run has no checkpoint."""
        return self.newest_step < 0


def _read(config: Config, folder: str) -> _Inputs:
    """Reads the inputs of a run, checks that they can be used, and writes the corpus of a task if it does not exist."""
    steps = [checkpoints.step_of(path) for path in checkpoints.listed(Run(folder).checkpoints)]
    path = config.data.path
    if config.data.generated is not None:
        tasks.prepare(config.data.generated, path)
    corpus.check_folder(path)
    vocabulary, tokenizer = corpus.read_vocabulary(os.path.join(path, corpus.VOCABULARY)), tokenizers.read(path)
    batches = _batches(config, vocabulary)
    facts = batches.corpus.source.facts()
    training, initial, teacher = config.training, None, None
    longest_source = batches.longest_source
    if training.init_from:  # Eq. 10 keeps the S that the weights were trained with
        if not steps:
            initial = _trained(config, "init_from", vocabulary, tokenizer, facts)
        longest_source = initial.max_source_length if initial else Run(folder).metadata["max_source_length"]
    if training.teacher and (not steps or (training.teacher_weight > 0 and steps[-1] < training.teacher_steps)):
        teacher = _trained(config, "teacher", vocabulary, tokenizer, facts)
    checksum = batches.corpus.checksum()
    contents = configs.dump(config), str(vocabulary), json.dumps(tokenizer.files(), sort_keys=True), checksum
    digest = hashlib.sha256("\0".join(contents).encode("utf-8")).digest()
    return _Inputs(
        vocabulary=vocabulary,
        tokenizer=tokenizer,
        batches=batches,
        longest_source=longest_source,
        memory_line=batches.length_regression() if config.model.has_memory_length else None,
        initial=initial,
        teacher=cast("Seq2Seq | None", teacher),  # configs allow no other teacher
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


def _trained(config: Config, key: str, vocabulary: Vocabulary, tokenizer: Tokenizer, source_facts: dict) -> Model:
    """Returns the model in the run folder that a key of `training` names, `init_from` or `teacher`.

    Raises ConfigError if it reads or is something else than the run needs.
    """
    folder = getattr(config.training, key)
    try:
        run = Run(folder)
        model, _ = run.model()
    except (ConfigError, RunError) as error:
        problem = error.problem if isinstance(error, RunError) else error
        raise type(error)(f"training.{key}: {problem}") from error
    if not run.reads_as(vocabulary, tokenizer) or run.source_metadata != source_facts:
        advice = f"prepare the data with --vocabulary_of {folder}"
        if config.data.generated:
            advice = "it needs a task with the same tokens"
        raise ConfigError(
            f"training.{key}: the vocabulary, BPE or features of {folder} differ from the data's; {advice}"
        )
    theirs, ours = (
        {
            name: value
            for name, value in configs.to_dict(each)["model"].items()
            if (name in _ENCODER_KEYS if key == "teacher" else name not in _MAY_DIFFER)
        }
        for each in (run.config, config)
    )
    if differing := configs.differences(theirs, ours, "model."):
        raise ConfigError(f"training.{key}: {folder} holds another model: {', '.join(map(str, differing))}")
    return model


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
        teacher = _copied(inputs.teacher)  # every device needs its weights
        step = TrainingStep(model, config.training, strategy, teacher)
    if teacher and config.training.teacher_weight:
        _check_contexts(model, teacher)
    if inputs.initial:
        _copy_weights(inputs.initial, model)
    elif inputs.teacher and inputs.is_new:
        _copy_weights(inputs.teacher, model, _ENCODER_PATHS)
    return model, step


def _copied(model: Seq2Seq | None) -> Seq2Seq | None:
    """Returns a copy of a model, with variables on all devices of the strategy whose scope is entered."""
    if model is None:
        return None
    copy = Seq2Seq.from_config(model.get_config())
    _copy_weights(model, copy)
    return copy


def _copy_weights(trained_model: Model, model: Model, prefixes: tuple[str, ...] = ("",)) -> None:
    """Copies the weights whose paths start with one of the prefixes."""
    trained_weights = checkpoints.named_weights(trained_model)
    for path, weight in checkpoints.named_weights(model).items():
        if path.startswith(prefixes):
            weight.assign(trained_weights[path])


def _check_contexts(student: Model, teacher: Seq2Seq) -> None:
    """Raises ConfigError if a student's contexts cannot be compared with its teacher's."""
    theirs, ours = _context_size(teacher), _context_size(student)
    if not theirs or theirs != ours:
        problem = f"its contexts are {theirs} wide, and those of this model {ours}"
        raise ConfigError(f"training.teacher: {problem}; only its encoder can be had (teacher_weight: 0)")


def _context_size(model: Model) -> int:
    """Returns the width of a model's contexts; 0 without attention."""
    return model.attention.context_size(2 * model.encoder.units) if isinstance(model, Seq2Seq) else 0


def _make_folder(config: Config, folder: str, inputs: _Inputs) -> None:
    facts: dict[str, Any] = {
        "max_source_length": inputs.longest_source,
        "training_pairs": inputs.batches.pairs,
        "checksum": inputs.checksum,
        **inputs.batches.corpus.source.facts(),
    }
    if inputs.memory_line:
        facts[MEMORY_LINE] = list(inputs.memory_line)
    may_grow = not depends_on_max_steps(config.training)
    Run.create(folder, config, inputs.vocabulary, inputs.tokenizer, facts, may_grow=may_grow)


def _restore(
    config: Config, folder: str, model: Model, step: TrainingStep, progress: Progress, is_new: bool
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


def _share_progress(progress: Progress, folder: str, strategy: tf.distribute.Strategy) -> None:
    """Gives every worker the chief's progress. Raises RunError if a worker restored another checkpoint."""
    (step,) = distribution.numbers_of_chief(strategy, lambda: [progress.step], 1)
    if distribution.on_any_worker(strategy, [progress.step != step]) == [True]:
        raise _other_checkpoints(folder)
    content = progress.serialize().encode("utf-8")
    (size,) = distribution.numbers_of_chief(strategy, lambda: [len(content)], 1)
    codes = distribution.numbers_of_chief(strategy, lambda: list(content), int(size))
    progress.deserialize(bytes(map(int, codes)).decode("utf-8"))


@contextlib.contextmanager
def claimed(run: OpenRun) -> Iterator[None]:
    """Locks a run folder against other trainings, and checks that it can be written.

    Raises RunError if another process trains in it or has done so since the run was restored, OSError.
    """
    run_folder = Run(run.folder)
    with run_folder.locked():
        for path in (run.folder, run_folder.checkpoints, run_folder.best, run_folder.events):
            files.make_folder(path)
        state = tf.train.get_checkpoint_state(run.recent.directory)
        if state and state.model_checkpoint_path != run.recent.latest_checkpoint:
            raise RunError(f"{run.folder}: another training has just resumed it; start again")
        run_folder.raise_max_steps(run.config)
        yield
