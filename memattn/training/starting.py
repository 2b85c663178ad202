"""Reads the trained models that a run uses: one whose weights it starts with, or a teacher for distillation."""

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

_MAY_DIFFER = {"dropout", "init_scale", "spec_augment"}  # model keys that act only in initialization or training
# Model keys in which student and teacher must agree.
_ENCODER_KEYS = {
    *("kind", "encoder", "layers", "units", "encoder_layers", "encoder_units", "encoder_reduce"),
    *("embedding_size", "tie_embeddings"),
}
_ENCODER_PATHS = ("encoder/", "source_embedding/")  # prefixes of the paths of an encoder's weights


class Start(NamedTuple):
    """Trained models that a run uses.

    Attributes:
      initial: model of `training.init_from`; None for a run that resumes.
      teacher: model of `training.teacher`; None once the run no longer needs it.
      is_new: whether the run has no checkpoint.
    """

    initial: Model | None
    teacher: Seq2Seq | None
    is_new: bool

    def set_weights(self, model: Model) -> None:
        """Copies all weights of `initial`, or those of the teacher's encoder, to the model of a new run."""
        if self.initial is not None:
            _copy_weights(self.initial, model)
        elif self.teacher is not None and self.is_new:
            _copy_weights(self.teacher, model, _ENCODER_PATHS)


def copied(model: Seq2Seq | None) -> Seq2Seq | None:
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


def read(
    config: Config, vocabulary: Vocabulary, tokenizer: Tokenizer, source_facts: dict, oldest_step: int | None
) -> Start:
    """Reads the models that the config of a run names, as far as the run still needs them.

    `source_facts` are those of the training data. `oldest_step` is the step of the oldest checkpoint that the run could
    resume from; None for a new run. Raises ConfigError, RunError, DataError, OSError.
    """
    training = config.training

    def read_model(key: str, must_match: Callable[[str], bool]) -> Model | None:
        folder = getattr(training, key)
        return _model(config, key, folder, must_match, vocabulary, tokenizer, source_facts) if folder else None

    initial = read_model("init_from", lambda name: name not in _MAY_DIFFER) if oldest_step is None else None
    teacher = None
    if oldest_step is None or (training.teacher_weight > 0 and oldest_step < training.teacher_steps):
        teacher = read_model("teacher", lambda name: name in _ENCODER_KEYS)
    return Start(
        initial=initial,
        teacher=teacher if isinstance(teacher, Seq2Seq) else None,  # always a Seq2Seq: configs allow no other teacher
        is_new=oldest_step is None,
    )


def _model(
    config: Config,
    key: str,
    folder: str,
    must_match: Callable[[str], bool],
    vocabulary: Vocabulary,
    tokenizer: Tokenizer,
    source_facts: dict,
) -> Model:
    """Returns the model in a run folder that a key of `training` names.

    Raises ConfigError if it differs from the model of `config` in a key for which `must_match` is true.
    """
    try:
        run = trained.load([folder], ["decoding.lexicon=null"], None)
    except (ConfigError, RunError) as error:
        problem = error.problem if isinstance(error, RunError) else error
        raise type(error)(f"training.{key}: {problem}") from error
    if not run.reads_as(vocabulary, tokenizer) or run.source_facts != source_facts:
        advice = f"prepare the data with --vocabulary_of {folder}"
        if config.data.generated:
            advice = "it needs a task with the same tokens"
        raise ConfigError(
            f"training.{key}: the vocabulary, BPE or features of {folder} differ from the data's; {advice}"
        )
    theirs, ours = (
        {name: value for name, value in configs.to_dict(each)["model"].items() if must_match(name)}
        for each in (run.config, config)
    )
    if differing := configs.differences(theirs, ours, "model."):
        raise ConfigError(f"training.{key}: {folder} holds another model: {', '.join(map(str, differing))}")
    return run.models[0]


def check_contexts(student: Model, teacher: Seq2Seq) -> None:
    """Raises ConfigError if a student's contexts cannot be compared with its teacher's."""
    theirs, ours = _context_size(teacher), _context_size(student)
    if not theirs or theirs != ours:
        problem = f"its contexts are {theirs} wide, and those of this model {ours}"
        raise ConfigError(f"training.teacher: {problem}; only its encoder can be had (teacher_weight: 0)")


def _context_size(model: Model) -> int:
    """Returns the width of a model's contexts; 0 without attention."""
    return model.attention.context_size(2 * model.encoder.units) if isinstance(model, Seq2Seq) else 0
