"""Trained models of other runs: `training.init_from` gives initial weights, `training.teacher` is distilled."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from memattn.config import Config
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, RunError
from memattn.models.interface import Model
from memattn.models.seq2seq import Seq2Seq
from memattn.runs import checkpoints
from memattn.runs.run import Run
from memattn.runs.trained import load_model

_ENCODER_PATHS = ("encoder/", "source_embedding/")  # prefixes of the paths of an encoder's weights


class Pretrained(NamedTuple):
    """The trained models that a training needs.

    Attributes:
      initial: model of `training.init_from`; None without it, and for a run that resumes.
      teacher: model of `training.teacher`; None without it, and once the run no longer needs it.
    """

    initial: Model | None = None
    teacher: Seq2Seq | None = None

    def initialize(self, model: Model) -> None:
        """Copies the weights that training starts with into a model: all of `initial`, or the teacher's encoder.

        Raises ConfigError if the model has other weights.
        """
        if self.initial:
            _copy_weights("init_from", self.initial, model)
        elif self.teacher:
            _copy_weights("teacher", self.teacher, model, _ENCODER_PATHS)

    def replicated_teacher(self, student: Model, weight: float) -> Seq2Seq | None:
        """Returns a copy of the teacher, with variables on all devices of the strategy whose scope is entered.

        None without a teacher, or if the weight of its contexts is 0. Raises ConfigError if these cannot be compared
        with the contexts of the student.
        """
        if self.teacher is None or not weight:
            return None
        theirs, ours = _context_size(self.teacher), _context_size(student)
        if not theirs or theirs != ours:
            problem = f"its contexts are {theirs} wide, and those of this model {ours}"
            raise ConfigError(f"training.teacher: {problem}; only its encoder can be had (teacher_weight: 0)")
        copy = Seq2Seq.from_config(self.teacher.get_config())
        _copy_weights("teacher", self.teacher, copy)
        return copy


def load(
    config: Config,
    steps: Sequence[int],
    vocabulary: Vocabulary,
    tokenizer: Tokenizer,
    source_metadata: Mapping[str, Any],
) -> Pretrained:
    """Loads the trained models that a run needs which has checkpoints of these steps, newest first.

    Raises ConfigError, DataError, RunError, OSError.
    """
    training, data = config.training, (vocabulary, tokenizer, source_metadata)
    if training.init_from and not steps:
        return Pretrained(initial=_model(config, "init_from", *data))
    is_taught = training.teacher_weight > 0 and bool(steps) and steps[-1] < training.teacher_steps
    if training.teacher and (is_taught or not steps):
        return Pretrained(teacher=cast(Seq2Seq, _model(config, "teacher", *data)))  # configs allow no other kind
    return Pretrained()


def _model(
    config: Config, key: str, vocabulary: Vocabulary, tokenizer: Tokenizer, source_metadata: Mapping[str, Any]
) -> Model:
    """Returns the model in the run folder that a key of `training` names.

    Raises ConfigError if its data is not what the run needs.
    """
    folder = getattr(config.training, key)
    try:
        run = Run(folder)
        model, _ = load_model(run)
    except (ConfigError, RunError) as error:
        problem = error.problem if isinstance(error, RunError) else error
        raise type(error)(f"training.{key}: {problem}") from error
    if not run.reads_as(vocabulary, tokenizer) or run.source_metadata != source_metadata:
        advice = f"prepare the data with --vocabulary_of {folder}"
        if config.data.generated:
            advice = "it needs a task with the same tokens"
        raise ConfigError(
            f"training.{key}: the vocabulary, BPE or features of {folder} differ from the data's; {advice}"
        )
    return model


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


def _context_size(model: Model) -> int:
    """Returns the width of a model's contexts; 0 without attention."""
    return model.attention.context_size(2 * model.encoder.units) if isinstance(model, Seq2Seq) else 0
