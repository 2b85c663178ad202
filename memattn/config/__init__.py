"""Reads a run's configuration, YAML with overrides, into the checked dataclasses that stand beside their code."""

from memattn.config.loading import apply_changes, check_overrides, dump, from_dict, load, to_dict
from memattn.config.sections import Config, ModelConfig, SweepConfig
from memattn.data.config import CopyConfig, DataConfig, TaskConfig
from memattn.models.neural_gpu import NeuralGPUConfig
from memattn.models.seq2seq import Seq2SeqConfig
from memattn.search.config import DecodingConfig, SampleConfig
from memattn.training.config import TrainingConfig
