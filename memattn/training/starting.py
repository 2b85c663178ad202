"""What a run takes from trained models: the weights that it starts with, and the teacher that it learns from."""

from collections.abc import Callable
from typing import NamedTuple

from memattn import config as configs
from memattn.config import Config
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, RunError
from memattn.models.interface import Model
from memattn.models.seq2seq import Seq2Seq
from memattn.runs import checkpoints, trained

_SHAPELESS = {"dropout", "init_scale"}  # keys of the model that its weights' shapes do not depend on
_ENCODER_KEYS = {"kind", "encoder", "layers", "units", "encoder_units", "embedding_size", "tie_embeddings"}
_ENCODER_PATHS = ("encoder/", "source_embedding/")  # how the paths of an encoder's weights start


class Start(NamedTuple):
    """Trained models that a run takes from.

    Attributes:
      initial: the model of `training.init_from`, for a run without a checkpoint.
      teacher: the model of `training.teacher`, while its contexts still count.
      is_new: whether the run has no checkpoint.
    """

    initial: Seq2Seq | None
    teacher: Seq2Seq | None
    is_new: bool

    def give_weights(self, model: Model) -> None:
        """Gives a new run the weights of `initial`, or those of the teacher's encoder."""
        if self.initial:
            model.set_weights(self.initial.get_weights())
        elif self.teacher and self.is_new:
            taught = checkpoints.named_weights(self.teacher)
            for path, weight in checkpoints.named_weights(model).items():
                if path.startswith(_ENCODER_PATHS):
                    weight.assign(taught[path])


def read(config: Config, vocabulary: Vocabulary, text: Tokenizer, oldest_step: int | None) -> Start:
    """Reads the models that the config of a run names.

    `oldest_step` is the step of the oldest checkpoint that the run could resume from, None for a new run. Raises
    ConfigError, RunError, DataError, OSError.
    """
    training, is_new = config.training, oldest_step is None
    is_taught = is_new or (training.teacher_weight > 0 and oldest_step < training.teacher_steps)

    def model(key: str, must_match: Callable[[str], bool]) -> Seq2Seq | None:
        folder = getattr(training, key)
        return _model(config, key, folder, must_match, vocabulary, text) if folder else None

    return Start(
        initial=model("init_from", lambda name: name not in _SHAPELESS) if is_new else None,
        teacher=model("teacher", lambda name: name in _ENCODER_KEYS) if is_taught else None,
        is_new=is_new,
    )


def _model(
    config: Config,
    key: str,
    folder: str,
    must_match: Callable[[str], bool],
    vocabulary: Vocabulary,
    text: Tokenizer,
) -> Seq2Seq:
    """The model of the run folder that a key of `training` names; what `must_match` says equals that of `config`."""
    try:
        run = trained.load([folder], ["decoding.lexicon=null"], None)
    except (ConfigError, RunError) as error:
        problem = error.problem if isinstance(error, RunError) else error
        raise type(error)(f"training.{key}: {problem}") from error
    if not run.reads_as(vocabulary, text):
        right = f"prepare the data with --vocabulary_of {folder}"
        if config.data.generated:
            right = "it needs a task with the same tokens"
        raise ConfigError(f"training.{key}: the vocabulary or BPE of {folder} differs from the data's; {right}")
    models = [configs.to_dict(each)["model"] for each in (run.config, config)]
    models = [{name: value for name, value in model.items() if must_match(name)} for model in models]
    if differing := configs.differences(*models, "model."):
        raise ConfigError(f"training.{key}: {folder} holds another model: {', '.join(map(str, differing))}")
    return run.models[0]


def check_contexts(student: Model, teacher: Seq2Seq) -> None:
    """Raises ConfigError if a student's contexts cannot be compared with its teacher's."""
    theirs, ours = (model.attention.context_size(2 * model.encoder.units) for model in (teacher, student))
    if not theirs or theirs != ours:
        problem = f"its contexts are {theirs} wide, and those of this model {ours}"
        raise ConfigError(f"training.teacher: {problem}; only its encoder can be had (teacher_weight: 0)")
