"""The graphs of a model's training steps are freed when the model is no longer used."""

import gc

import numpy as np
import pytest
import tensorflow as tf
from helpers import neural_gpu
from helpers.models import make_model
from helpers.runs import NO_STRATEGY

from memattn.config import TrainingConfig
from memattn.data.vocabulary import EOS
from memattn.training.step import TrainingStep

BATCH = np.array([[4, 5, EOS], [5, 6, EOS]], np.int32)
MODELS = {
    "LSTM": lambda: make_model("memory", {"num_slots": 2}),
    "Neural GPU": lambda: neural_gpu.make_model("neural_gpu", "dngpu"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "jit_compile"),
    [("LSTM", False), ("LSTM", True), ("Neural GPU", False)],
)
def test_the_graphs_of_a_trained_model_are_freed(name, jit_compile):
    update(MODELS[name](), jit_compile)  # leaves graphs of functions that all models share
    before = graphs()
    update(MODELS[name](), jit_compile)
    assert graphs() == before


def update(model, jit_compile: bool) -> None:
    config = TrainingConfig(batch_size=4, jit_compile=jit_compile)
    TrainingStep(model, config, NO_STRATEGY)([(BATCH, BATCH)], 0, 0.1)


def graphs() -> int:
    """The number of graphs in memory."""
    gc.collect()
    return sum(isinstance(item, tf.Graph) for item in gc.get_objects())
