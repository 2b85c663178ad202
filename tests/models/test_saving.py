"""`.keras` files restore models."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from helpers.models import V, make_model, padded

from memattn.models.neural_gpu import KINDS, NeuralGPUConfig

NEURAL_GPU = NeuralGPUConfig(layers=1, units=6, width=2, cell="dngpu", dropout=0.25)
MODELS = {
    "memory": partial(make_model, "memory", {"num_slots": 2}, encoder_reduce=(2,), encoder_layers=2, init_scale=0.75),
    "tied": partial(make_model, "bahdanau", {}, tie_embeddings="all", init_scale=0.75),
    "rnnsearch": partial(make_model, "bahdanau", {}, decoder="rnnsearch", init_scale=0.75),
    **{name: partial(kind, NEURAL_GPU, vocabulary_size=V, max_source_length=6) for name, kind in KINDS.items()},
}


def assert_equal_outputs(outputs, restored_outputs):
    for values, restored in zip(*map(tf.nest.flatten, (outputs, restored_outputs)), strict=True):
        np.testing.assert_allclose(values, restored, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_a_keras_file_restores_a_model(name, tmp_path):
    model, source = MODELS[name](), padded([[4, 5, 2], [4, 2]])
    model.save(tmp_path / "model.keras")
    restored = tf.keras.models.load_model(tmp_path / "model.keras")
    assert restored.get_config() == model.get_config()
    assert_equal_outputs(model(source, source), restored(source, source))
