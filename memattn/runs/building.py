"""Builds the model of a config or of a run folder."""

import os
import warnings
from collections.abc import Sequence

from memattn.config import Config
from memattn.data.corpus import VOCABULARY, read_vocabulary
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, reason
from memattn.models.interface import Model
from memattn.models.neural_gpu.model import KINDS as ACTIVE_MEMORY
from memattn.models.neural_gpu.model import NeuralGPU
from memattn.models.seq2seq import Seq2Seq
from memattn.runs import run_folder
from memattn.runs.run_folder import MEMORY_LINE

KINDS = {"seq2seq": Seq2Seq, **ACTIVE_MEMORY}  # models, by the names in model.kind


def build_model(
    run_config: Config,
    vocabulary_size: int,
    max_source_length: int,
    precision: str | None = None,
    source_features: int | None = None,
) -> Model:
    """Returns the model of a config with initial weights.

    Args:
      run_config: the config.
      vocabulary_size, max_source_length: see `Seq2Seq`.
      precision: type that the model computes in; by default that of training.
      source_features: width of the vectors that are sources; None where these are token ids.

    Raises ConfigError.
    """
    sizes = {"vocabulary_size": vocabulary_size, "max_source_length": max_source_length}
    if source_features is not None:
        sizes["source_features"] = source_features
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Keras 3 warns, then raises
            kind = KINDS[run_config.model.kind]
            return kind(run_config.model, **sizes, dtype=precision or run_config.training.precision)
    except ValueError as error:
        raise ConfigError(f"model: {reason(error)}") from error


def load_model(folder: str, run_config: Config, precision: str | None = None) -> tuple[Model, Vocabulary]:
    """Returns the model of a run folder with initial weights, and the vocabulary.

    Raises DataError, RunError, and ConfigError for options that do not fit the installed libraries.
    """
    vocabulary = read_vocabulary(os.path.join(folder, VOCABULARY))
    facts = run_folder.read_facts(folder)
    model = build_model(
        run_config, len(vocabulary), facts["max_source_length"], precision, facts.get("source_features")
    )
    if run_config.decoding.memory_ratio == "estimate" and not facts.get(MEMORY_LINE):
        raise ConfigError(
            "decoding.memory_ratio: no estimate, as the run has no record of the lengths of its training pairs; "
            "give a number such as 1.2, or null to search all lengths"
        )
    set_memory_line(model, facts.get(MEMORY_LINE))
    return model, vocabulary


def set_memory_line(model: Model, line: Sequence[float] | None) -> None:
    """Gives a model of active memory the line that `TrainingBatches.memory_line` returned, if the line is known."""
    if line and isinstance(model, NeuralGPU):
        model.memory_intercept, model.memory_slope = line
