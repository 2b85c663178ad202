"""A run's configuration: YAML and overrides into checked dataclasses, and sweeps into runs."""

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
from memattn.sweeps.expand import changes, expand, run_name

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
    "changes",
    "checked",
    "differences",
    "dump",
    "expand",
    "from_dict",
    "load",
    "run_name",
    "to_dict",
]
