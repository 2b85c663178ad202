"""Models of configs and of runs: with initial weights, with trained ones, and several that decode together."""

import dataclasses
import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from memattn.config import Config
from memattn.data import lexicon
from memattn.data.lexicon import Lexicon
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, RunError, reason
from memattn.models.interface import Ensemble, Model
from memattn.models.neural_gpu import KINDS as ACTIVE_MEMORY
from memattn.models.seq2seq import Seq2Seq
from memattn.runs import checkpoints
from memattn.runs.checkpoints import Checkpoint
from memattn.runs.run import CHECKPOINTS, Run

LENGTH_REGRESSION = "memory_line"  # key of the metadata: what `TrainingBatches.length_regression` returns
KINDS = {"seq2seq": Seq2Seq, **ACTIVE_MEMORY}  # models, by the names in model.kind


def build_model(
    config: Config, vocabulary_size: int, metadata: Mapping[str, Any], precision: str | None = None
) -> Model:
    """Returns the model of a config with initial weights. Raises ConfigError.

    Args:
      vocabulary_size: see `Seq2Seq`.
      metadata: properties of the training data: `max_source_length` (see `Seq2Seq`), `source_features` where sources
        are vectors, and for active memory `memory_line`, if it is known.
      precision: type that the model computes in; by default that of training.
    """
    arguments = {"vocabulary_size": vocabulary_size, "max_source_length": metadata["max_source_length"]}
    if "source_features" in metadata:
        arguments["source_features"] = metadata["source_features"]
    if config.model.has_memory_length and metadata.get(LENGTH_REGRESSION):
        arguments["length_regression"] = metadata[LENGTH_REGRESSION]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Keras 3 warns, then raises
            return KINDS[config.model.kind](config.model, **arguments, dtype=precision or config.training.precision)
    except ValueError as error:
        raise ConfigError(f"model: {reason(error)}") from error


@dataclasses.dataclass(frozen=True)
class Trained:
    """One trained model, or several that form an ensemble."""

    runs: list[Run]  # the run of each model
    models: list[Model]
    checkpoints: list[str]  # paths of the checkpoints that the weights are from
    config: Config  # config of the first run, with overrides
    lexicon: Lexicon | None = None  # the content of `decoding.lexicon`; None if a hypothesis may have any token

    @functools.cached_property
    def model(self) -> Model | Ensemble:
        """The model, or the `Ensemble` of several."""
        return self.models[0] if len(self.models) == 1 else Ensemble(self.models)

    @property
    def vocabulary(self) -> Vocabulary:
        return self.runs[0].vocabulary

    @property
    def tokenizer(self) -> Tokenizer:
        return self.runs[0].tokenizer

    @property
    def max_source_length(self) -> int:
        """Upper bound on the tokens of a line that is translated in one piece, without the end of sentence."""
        longest = min(run.longest_source for run in self.runs)  # in the training of every member
        return self.config.decoding.max_source_length or 2 * longest

    def check_reads_text(self, what: str) -> None:
        """Raises ConfigError if sources are no text, where `what` needs text."""
        if self.config.data.source != "tokens":
            problem = f"needs sources of text, and the run's data.source is {self.config.data.source}"
            raise ConfigError(f"{what}: {problem}; memattn-eval --split decodes a split of a prepared corpus")


def load(run_dirs: Sequence[str], overrides: Sequence[str] = (), average: int | None = None) -> Trained:
    """Loads the models of run folders, with their best weights or the average of the last `average` checkpoints.

    `overrides` may change `data.folder` and `decoding.*`. Raises ConfigError, DataError, RunError, OSError.
    """
    runs = list(map(Run, run_dirs))
    run_configs = [run.config_with(overrides) for run in runs]
    models, paths = [], []
    for run, config in zip(runs, run_configs, strict=True):
        model, read = load_model(run, config, average)
        models.append(model)
        paths += read
        if run is not runs[0]:
            _check_member(run, model, runs[0], models[0])
    decoding = run_configs[0].decoding
    words = lexicon.read(decoding.lexicon, runs[0].vocabulary, decoding.lexicon_size) if decoding.lexicon else None
    return Trained(runs, models, paths, run_configs[0], words)


def load_model(run: Run, config: Config, average: int | None = None) -> tuple[Model, list[str]]:
    """Returns a run's model with the weights that `load` takes, and the paths of the checkpoints that they are from.

    The model computes in the precision of the config's `decoding`, by default that of `training`.

    Raises DataError, RunError, OSError, and ConfigError for options that do not fit the installed libraries.
    """
    model = build_model(config, len(run.vocabulary), run.metadata, config.decoding.precision)
    if average:
        return model, checkpoints.restore_average(model, run.checkpoints, average)
    try:
        path = checkpoints.restore(Checkpoint(model), run.best)
    except RunError as error:
        raise RunError(str(error), f"--average 1 tries the last checkpoint in {CHECKPOINTS}/") from error
    if path is None:
        problem = f"training writes one every {config.training.validate_every:,} steps, as it validates"
        raise RunError(f"{run.folder}: no best checkpoint yet; {problem}")
    return model, [path]


def _check_member(run: Run, model: Model, first: Run, first_model: Model) -> None:
    """Raises ConfigError if a run and the first cannot be members of one ensemble."""
    kind, first_kind = run.config.model.kind, first.config.model.kind
    reductions = {each.encoder.reduction if isinstance(each, Seq2Seq) else 1 for each in (model, first_model)}
    if not first.reads_as(run.vocabulary, run.tokenizer):
        problem = f"its vocabulary or BPE differs from that of {first.folder}"
    elif run.source_metadata != first.source_metadata:
        problem = f"it reads other sources than {first.folder}"
    elif kind != first_kind:
        problem = f"its model.kind is {kind}, that of {first.folder} {first_kind}"
    elif len(reductions) > 1:
        problem = f"its model.encoder_reduce is not that of {first.folder}"
    else:
        return
    raise ConfigError(f"{run.folder}: {problem}; an ensemble needs the same")
