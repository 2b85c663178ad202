"""`.keras` files and configs restore models. Options may be scalars of NumPy."""

import json
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from helpers.mechanisms import make
from helpers.models import V, make_model, padded

from memattn import attention
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


def of_numpy(value):
    """Returns a value with NumPy's scalars in place of Python's."""
    if isinstance(value, dict):
        return {key: of_numpy(item) for key, item in value.items()}
    return {bool: np.bool_, float: np.float32, int: np.int64}.get(type(value), lambda same: same)(value)


@pytest.mark.parametrize("name", MODELS)
def test_the_config_of_a_model_holds_values_of_python(name):
    config = MODELS[name]().get_config()
    made = MODELS[name]().from_config(of_numpy(config))
    assert json.dumps(made.get_config()) == json.dumps(config)


@pytest.mark.parametrize("name", attention.MECHANISMS)
def test_the_config_of_a_mechanism_holds_values_of_python(name):
    config = make(name, {}).get_config()
    arguments = attention.MECHANISMS[name].constructor_arguments()
    of_numpy_options = of_numpy({option: config[option] for option in arguments})
    made = attention.MECHANISMS[name].from_config({**config, **of_numpy_options})
    assert json.dumps(made.get_config()) == json.dumps(config)
