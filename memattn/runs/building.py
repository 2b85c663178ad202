"""Builds the model of a config."""

import warnings
from collections.abc import Sequence

from memattn.config import Config
from memattn.errors import ConfigError, reason
from memattn.models.interface import Model
from memattn.models.neural_gpu.model import KINDS as ACTIVE_MEMORY
from memattn.models.neural_gpu.model import NeuralGPU
from memattn.models.seq2seq import Seq2Seq

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


def set_memory_line(model: Model, line: Sequence[float] | None) -> None:
    """Gives a model of active memory what `TrainingBatches.length_regression` returned, if this is known."""
    if line and isinstance(model, NeuralGPU):
        model.memory_intercept, model.memory_slope = line
