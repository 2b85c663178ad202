"""Trained models of other runs: `training.init_from` gives initial weights, `training.teacher` is distilled."""

from collections.abc import Mapping
from typing import Any, cast

from memattn.config import Config
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, RunError
from memattn.models.interface import Model
from memattn.models.seq2seq import Seq2Seq
from memattn.runs import checkpoints
from memattn.runs.run import Run
from memattn.runs.trained import load_model

ENCODER = ("encoder/", "source_embedding/")  # prefixes of the paths of an encoder's weights


def load(
    config: Config, key: str, vocabulary: Vocabulary, tokenizer: Tokenizer, source_metadata: Mapping[str, Any]
) -> Model:
    """Returns the model in the run folder that a key of `training` names.

    Raises ConfigError if its data is not what the run needs, DataError, RunError, OSError.
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


def copy_weights(key: str, trained_model: Model, model: Model, prefixes: tuple[str, ...] = ("",)) -> None:
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


def replicated_teacher(teacher: Model, student: Model) -> Seq2Seq:
    """Returns a copy of a teacher, with variables on all devices of the strategy whose scope is entered.

    Raises ConfigError if its contexts cannot be compared with those of the student.
    """
    theirs, ours = (
        model.attention.context_size(2 * model.encoder.units) if isinstance(model, Seq2Seq) else 0
        for model in (teacher, student)
    )
    if not theirs or theirs != ours:
        problem = f"its contexts are {theirs} wide, and those of this model {ours}"
        raise ConfigError(f"training.teacher: {problem}; only its encoder can be had (teacher_weight: 0)")
    copy = Seq2Seq.from_config(cast(Seq2Seq, teacher).get_config())
    copy_weights("teacher", teacher, copy)
    return copy
