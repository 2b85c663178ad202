"""Opens a run folder for training: reads the data, builds the model, and makes the folder or resumes the run in it."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any, cast

import tensorflow as tf

from memattn import config as configs
from memattn import files
from memattn.config import Config
from memattn.data import corpus, tasks
from memattn.data import tokenizer as tokenizers
from memattn.data.batches import TrainingBatches
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, RunError
from memattn.models.interface import Model
from memattn.models.seq2seq import Seq2Seq
from memattn.runs import checkpoints
from memattn.runs.checkpoints import Checkpoint
from memattn.runs.run import Run
from memattn.runs.trained import LENGTH_REGRESSION, build_model, load_model
from memattn.training.distribution import Workers
from memattn.training.progress import Progress
from memattn.training.step import TrainingStep
from memattn.training.validation import Validation

_ENCODER = ("encoder/", "source_embedding/")  # prefixes of the paths of an encoder's weights


class OpenRun:
    """A run that is ready to train: its data, model, training step, validation, progress and checkpoints.

    The model has initial weights, or those of the checkpoint that the run resumes from. All workers must read the same
    data, and must see the same checkpoints.

    Raises ConfigError, DataError, RunError, OSError.
    """

    def __init__(self, config: Config, folder: str, workers: Workers):
        self.config, self.folder, self.workers, self.run_folder = config, folder, workers, Run(folder)
        training = config.training
        not_shared = f"{folder}: the workers see different checkpoints in it; all must share the folder"
        with workers.barrier():
            steps = list(map(checkpoints.step_of, checkpoints.newest_first(self.run_folder.checkpoints)))
            self.batches, vocabulary, tokenizer = _read_data(config)
            initial = self._trained("init_from", vocabulary, tokenizer) if training.init_from and not steps else None
            # If the newer checkpoints are damaged, the run resumes from the oldest one.
            needs_teacher = not steps or (training.teacher_weight > 0 and steps[-1] < training.teacher_steps)
            teacher = self._trained("teacher", vocabulary, tokenizer) if training.teacher and needs_teacher else None
            metadata = self._metadata(initial)
        contents = [configs.dump(config), str(vocabulary), tokenizer.files(), metadata]
        workers.check_equal(contents, f"{folder}: the workers have different configs or data; start all with the same")
        workers.check_equal(steps[:1], not_shared)
        tf.keras.utils.set_random_seed(training.seed)
        with workers.strategy.scope():
            self.model = build_model(config, len(vocabulary), metadata)
            replicated = _replicated(teacher, self.model) if teacher and training.teacher_weight else None
            self.training_step = TrainingStep(self.model, training, workers.strategy, replicated)
        if initial:
            _copy_weights("init_from", initial, self.model)
        elif teacher and not steps:
            _copy_weights("teacher", teacher, self.model, _ENCODER)
        with workers.barrier():
            self.validation = Validation(config, self.model, vocabulary, tokenizer)
        workers.on_chief(self.run_folder.create, config, vocabulary, tokenizer, metadata)
        self.progress = Progress()
        with workers.barrier():
            self._restore()
        self.progress.resume(training)
        workers.check_equal(self.progress.step, not_shared)

    def _trained(self, key: str, vocabulary: Vocabulary, tokenizer: Tokenizer) -> Model:
        """Returns the model in the run folder that a key of `training` names.

        Raises ConfigError if its data is not what this run needs, DataError, RunError, OSError.
        """
        folder = getattr(self.config.training, key)
        try:
            run = Run(folder)
            model, _ = load_model(run, run.config)
        except (ConfigError, RunError) as error:
            problem = error.problem if isinstance(error, RunError) else error
            raise type(error)(f"training.{key}: {problem}") from error
        source_metadata = self.batches.corpus.source.metadata()
        if not run.reads_as(vocabulary, tokenizer) or run.source_metadata != source_metadata:
            advice = f"prepare the data with --vocabulary_of {folder}"
            if self.config.data.generated:
                advice = "it needs a task with the same tokens"
            raise ConfigError(
                f"training.{key}: the vocabulary, BPE or features of {folder} differ from the data's; {advice}"
            )
        return model

    def _metadata(self, initial: Model | None) -> dict[str, Any]:
        """Returns the content of corpus.json: properties of the training data that must stay as they are.

        Eq. 10 keeps the S that the weights of `training.init_from` were trained with, however long the sources are.
        """
        batches, max_source_length = self.batches, self.batches.longest_source
        if self.config.training.init_from:
            max_source_length = initial.max_source_length if initial else self.run_folder.metadata["max_source_length"]
        metadata = {
            "max_source_length": max_source_length,
            "training_pairs": batches.pairs,
            "checksum": batches.corpus.checksum(),
            **batches.corpus.source.metadata(),
        }
        # A run of an earlier version resumes without this key.
        if batches.longest_source > max_source_length and (initial or "longest_source" in self.run_folder.metadata):
            metadata["longest_source"] = batches.longest_source
        if self.config.model.has_memory_length:
            metadata[LENGTH_REGRESSION] = list(batches.length_regression())
        return metadata

    def _restore(self) -> None:
        """Restores the newest readable checkpoint, if any is listed.

        Raises RunError if none of those can be read, or if the folder of the checkpoints was removed.
        """
        recent, step = self.run_folder.checkpoints, self.training_step
        checkpoint = Checkpoint(self.model, step.optimizer, progress=self.progress, step=step.state)
        try:
            self.restored = checkpoints.restore(checkpoint, recent)  # its path; None for a new run
        except RunError as error:
            raise RunError(f"{error}; move the folder away to start over") from error
        # A training that was killed has left the folder, even if it has written no checkpoint yet.
        if not os.path.isdir(recent) and checkpoints.newest_first(self.run_folder.best):
            problem = f"{recent}: missing, though {self.run_folder.best} has weights, which training anew would replace"
            raise RunError(problem, "put it back, train in another folder, or evaluate by memattn-eval")
        self.recent = checkpoints.manager(checkpoint, recent, self.config.training.keep_checkpoints)
        self.best = checkpoints.manager(Checkpoint(self.model), self.run_folder.best, 1)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the run folder against other trainings, and checks that it can be written; for the chief alone.

        Raises RunError if another process trains in it or has done so since the run was restored, OSError.
        """
        run_folder = self.run_folder
        with run_folder.locked():
            for path in (self.folder, run_folder.checkpoints, run_folder.best, run_folder.events):
                files.make_folder(path)
            state = tf.train.get_checkpoint_state(run_folder.checkpoints)
            if state and state.model_checkpoint_path != self.recent.latest_checkpoint:
                raise RunError(f"{self.folder}: another training has just resumed it; start again")
            run_folder.raise_max_steps(self.config)
            yield


def _read_data(config: Config) -> tuple[TrainingBatches, Vocabulary, Tokenizer]:
    """Reads the training data, which it writes first if it is that of a task."""
    data, training = config.data, config.training
    if data.generated is not None:
        tasks.prepare(data.generated, data.path)
    corpus.check_folder(data.path)
    vocabulary = corpus.read_vocabulary(data.path)
    batches = TrainingBatches(
        corpus.read_corpus(data.path, "train", vocabulary, data.source),
        batch_size=training.batch_size,
        batch_type=training.batch_type,
        num_buckets=data.num_buckets,
        seed=training.seed,
        max_source_length=data.max_source_length,
        max_target_length=data.max_target_length,
    )
    return batches, vocabulary, tokenizers.read(data.path)


def _copy_weights(key: str, trained_model: Model, model: Model, prefixes: tuple[str, ...] = ("",)) -> None:
    """Copies the weights whose paths start with one of the prefixes.

    Raises ConfigError, which names the key of `training`, unless both models have these weights, of equal shapes.
    """
    theirs, ours = (
        {path: weight for path, weight in checkpoints.named_weights(each).items() if path.startswith(prefixes)}
        for each in (trained_model, model)
    )
    for path in {**ours, **theirs}:
        there, here = (list(weights[path].shape) if path in weights else "absent" for weights in (theirs, ours))
        if there != here:
            raise ConfigError(f"training.{key}: another model: its weight {path} is {there}, and {here} in this model")
        ours[path].assign(theirs[path])


def _replicated(teacher: Model, student: Model) -> Seq2Seq:
    """Returns a copy of a teacher, with variables on all devices of the strategy whose scope is entered.

    Raises ConfigError if its contexts cannot be compared with those of the student.
    """
    theirs, ours = (model.decoder.context_size if isinstance(model, Seq2Seq) else 0 for model in (teacher, student))
    if not theirs or theirs != ours:
        problem = f"its contexts are {theirs} wide, and those of this model {ours}"
        raise ConfigError(f"training.teacher: {problem}; only its encoder can be had (teacher_weight: 0)")
    copy = Seq2Seq.from_config(cast(Seq2Seq, teacher).get_config())
    _copy_weights("teacher", teacher, copy)
    return copy
