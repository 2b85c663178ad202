"""Reads a run's configuration, YAML with overrides, into checked dataclasses."""

from memattn.config.differences import differences
from memattn.config.loading import apply_changes, check_overrides, checked, dump, from_dict, load, to_dict
from memattn.config.schema import Origin
from memattn.config.sections import (
    Config,
    CopyConfig,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    NeuralGPUConfig,
    SampleConfig,
    Seq2SeqConfig,
    SweepConfig,
    TaskConfig,
    TrainingConfig,
)

__all__ = [
    "Config",
    "CopyConfig",
    "DataConfig",
    "DecodingConfig",
    "ModelConfig",
    "NeuralGPUConfig",
    "Origin",
    "SampleConfig",
    "Seq2SeqConfig",
    "SweepConfig",
    "TaskConfig",
    "TrainingConfig",
    "apply_changes",
    "check_overrides",
    "checked",
    "differences",
    "dump",
    "from_dict",
    "load",
    "to_dict",
]
