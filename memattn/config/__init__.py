"""A run's configuration: YAML and overrides into checked dataclasses."""

from memattn.config.config import (
    Config,
    CopyConfig,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    SampleConfig,
    SweepConfig,
    TaskConfig,
    TrainingConfig,
    apply_changes,
    checked,
    differences,
    dump,
    from_dict,
    load,
    to_dict,
)
from memattn.config.schema import Source

__all__ = [
    "Config",
    "CopyConfig",
    "DataConfig",
    "DecodingConfig",
    "ModelConfig",
    "SampleConfig",
    "Source",
    "SweepConfig",
    "TaskConfig",
    "TrainingConfig",
    "apply_changes",
    "checked",
    "differences",
    "dump",
    "from_dict",
    "load",
    "to_dict",
]
