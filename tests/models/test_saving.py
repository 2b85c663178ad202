"""The parts of a model are Keras layers: `.keras` files and configs restore them. Options may be scalars of NumPy."""

import json
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from helpers.mechanisms import KERAS_3, assert_all_different, make, random_weights
from helpers.models import V, make_model, padded

from memattn import attention
from memattn.models.active_memory import CELLS
from memattn.models.decoder import Bridge, Decoder, GRUDecoder
from memattn.models.embeddings import FeatureReader, TokenReader
from memattn.models.encoder import ActiveMemoryEncoder, Encoder
from memattn.models.lstm import LSTM
from memattn.models.neural_gpu import KINDS, NeuralGPUConfig
from memattn.models.rnnsearch import RNNsearchDecoder

U = 4
INPUTS = np.random.default_rng(1).normal(size=[2, 6, U]).astype(np.float32)
MASK = np.arange(6) < [[6], [3]]
FINAL, MEMORY = INPUTS.reshape(2, -1)[:, :16], np.random.default_rng(2).normal(size=[2, 6, 3, 6]).astype(np.float32)


def _decode(layer, inputs, hidden, states, mask):
    cells = [(hidden,) * layer.state_parts] * getattr(layer, "layers", 1)
    return layer(inputs, cells, {"values": states, "keys": states, "mask": mask})


def _decoder(kind, initializer="glorot_uniform", **options):
    mechanism = attention.LuongAttention(units=U, initializer=initializer)
    mechanism.build((None, None, U), (None, None, U))
    return kind(attention=mechanism, units=U, dropout=0.25, initializer=initializer, **options)


ENCODED, DECODED = [INPUTS, MASK], [INPUTS, INPUTS[:, 0], INPUTS, MASK]
# Maker of a layer, its inputs, and a function that calls it, if they are not its arguments.
INITIALIZED = {  # by an initializer
    "encoder": (partial(Encoder, layers=2, units=U, dropout=0.25, reduce=(2,)), ENCODED),
    "encoder of GRUs": (partial(Encoder, layers=2, units=U, cell="gru"), ENCODED),
    "active encoder": (partial(ActiveMemoryEncoder, layers=1, units=U), ENCODED),
    "dense bridge": (partial(Bridge, "dense", layers=2, units=3, parts=1), [FINAL]),
    "backward bridge": (partial(Bridge, "backward", layers=1, units=3, encoder_units=U), [FINAL]),
    "decoder": (partial(_decoder, Decoder, layers=2), DECODED, _decode),
    "decoder without input feeding": (
        partial(_decoder, Decoder, layers=1, input_feeding=False, mix=False),
        DECODED,
        _decode,
    ),
    "decoder of GRUs": (partial(_decoder, GRUDecoder, layers=2), DECODED, _decode),
    "rnnsearch": (partial(_decoder, RNNsearchDecoder), DECODED, _decode),
}
PARTS = {
    **INITIALIZED,
    "lstm": (partial(LSTM, 3), [INPUTS]),
    "lstm with a mask": (partial(LSTM, 3, go_backwards=True), ENCODED, lambda layer, x, mask: layer(x, mask=mask)),
    "zero bridge": (partial(Bridge, "zero", layers=2, units=3, parts=1), [FINAL]),
    "token reader": (partial(TokenReader, 7, 3), [np.array([[1, 2, 0]])]),
    "feature reader": (partial(FeatureReader, U, spec_augment=2), [INPUTS]),
    **{
        f"cell {name}": (partial(kind, maps=6, width=2, dropout=0.25), [MEMORY, np.array([6, 3])])
        for name, kind in CELLS.items()
    },
}
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


def _call(layer, *inputs):
    return layer(*inputs)


@pytest.mark.skipif(not KERAS_3, reason="Keras 2 does not restore weights that no functional model has made")
@pytest.mark.parametrize("part", PARTS)
def test_a_keras_file_restores_a_part_of_a_model(part, tmp_path):
    make, arrays, call = (*PARTS[part], _call)[:3]
    inputs = [tf.keras.Input(array.shape[1:], dtype=array.dtype) for array in arrays]
    model = tf.keras.Model(inputs, call(make(), *inputs))
    model.save(tmp_path / "model.keras")
    restored = tf.keras.models.load_model(tmp_path / "model.keras")
    assert_equal_outputs(model(arrays), restored(arrays))


@pytest.mark.parametrize("name", MODELS)
def test_a_keras_file_restores_a_model(name, tmp_path):
    model, source = MODELS[name](), padded([[4, 5, 2], [4, 2]])
    model.save(tmp_path / "model.keras")
    restored = tf.keras.models.load_model(tmp_path / "model.keras")
    assert restored.get_config() == model.get_config()
    assert_equal_outputs(model(source, source), restored(source, source))


@pytest.mark.parametrize("part", INITIALIZED)
@pytest.mark.parametrize("seed", [None, 5])
def test_no_two_weights_of_a_part_of_a_model_have_equal_initial_values(part, seed):
    make, arrays, call = (*INITIALIZED[part], _call)[:3]
    layer = make(initializer=tf.keras.initializers.RandomUniform(-0.1, 0.1, seed=seed))
    restored = type(layer).from_config(json.loads(json.dumps(layer.get_config())))
    for each in (layer, restored):
        call(each, *map(tf.constant, arrays))
        assert_all_different(random_weights(each))
    if seed is not None and part != "active encoder":  # whose cells have initializers of their own
        for values, same in zip(random_weights(layer), random_weights(restored), strict=True):
            np.testing.assert_array_equal(values, same)


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
