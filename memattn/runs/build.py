"""Builds the model of a config, of any kind."""

import warnings
from collections.abc import Mapping
from typing import Any

from memattn.config import Config
from memattn.errors import ConfigError, reason
from memattn.models.interface import Model
from memattn.models.neural_gpu.model import KINDS as ACTIVE_MEMORY
from memattn.models.seq2seq import Seq2Seq

LENGTH_REGRESSION = "memory_line"  # key of the metadata: what `TrainingBatches.length_regression` returns
KINDS = {"seq2seq": Seq2Seq, **ACTIVE_MEMORY}  # models, by the names in model.kind


def build_model(
    config: Config, vocabulary_size: int, metadata: Mapping[str, Any], precision: str | None = None
) -> Model:
    """Returns the model of a config with initial weights.

    Args:
      config: the config.
      vocabulary_size: see `Seq2Seq`.
      metadata: properties of the training data: `max_source_length` (see `Seq2Seq`), `source_features` where sources
        are vectors, and for active memory `memory_line`, if it is known.
      precision: type that the model computes in; by default that of training.

    Raises ConfigError.
    """
    arguments = {"vocabulary_size": vocabulary_size, "max_source_length": metadata["max_source_length"]}
    if "source_features" in metadata:
        arguments["source_features"] = metadata["source_features"]
    if config.model.has_memory_length and metadata.get(LENGTH_REGRESSION):
        arguments["memory_intercept"], arguments["memory_slope"] = metadata[LENGTH_REGRESSION]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Keras 3 warns, then raises
            return KINDS[config.model.kind](config.model, **arguments, dtype=precision or config.training.precision)
    except ValueError as error:
        raise ConfigError(f"model: {reason(error)}") from error
