"""The LSTM of a CPU: compared with Keras' LSTM and its gradients."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.marks import slow

from memattn.models.lstm import LSTM, run_lstm

BATCH, LENGTH, WIDTH, UNITS = 3, 5, 4, 6
LENGTHS = [5, 2, 1]
MASK = np.arange(LENGTH) < np.array(LENGTHS)[:, None]


def inputs(seed: int = 0) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).normal(size=[BATCH, LENGTH, WIDTH]), tf.float32)


def both(**options) -> tuple[LSTM, tf.keras.layers.LSTM]:
    """The layer and Keras', with equal weights; the biases are not 0."""
    tf.keras.utils.set_random_seed(1)
    pair = [kind(UNITS, return_sequences=True, return_state=True, **options) for kind in (LSTM, tf.keras.layers.LSTM)]
    for layer in pair:
        layer.build((None, None, WIDTH))
    weights = [np.random.default_rng(2).normal(size=weight.shape) / 3 for weight in pair[1].get_weights()]
    for layer in pair:
        layer.set_weights(weights)
    return pair[0], pair[1]


def values_and_gradients(compute, layer, *tensors):
    """What `compute` returns, and the gradients of a sum of sines of it for the tensors and the layer's weights."""
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        values = compute()
        loss = tf.add_n([tf.reduce_sum(tf.sin(2 * tf.cast(value, tf.float32) + i)) for i, value in enumerate(values)])
    return values, tape.gradient(loss, [*tensors, *layer.trainable_variables])


def assert_close(actual, expected, tolerance=2e-6):
    for result, wanted in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(result, wanted, atol=tolerance)


def without_padding(values, go_backwards: bool):
    """Sets outputs of padding to 0: Keras repeats the last output there."""
    outputs, *state = values
    mask = MASK[:, ::-1] if go_backwards else MASK
    return [outputs * mask[:, :, None].astype(np.float32), *state]


@pytest.mark.parametrize(("go_backwards", "jit_compile"), [(False, False), slow(True, True)])
def test_layer_equals_keras_in_values_and_gradients(go_backwards, jit_compile):
    layer, keras_layer = both(go_backwards=go_backwards)
    x = inputs()
    options = [{"mask": MASK, "jit_compile": jit_compile}, {"mask": MASK}]
    results = [
        values_and_gradients(lambda i=i, n=n: without_padding(n(x, **options[i]), go_backwards), n, x)
        for i, n in enumerate((layer, keras_layer))
    ]
    assert_close(results[0], results[1])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_first_state_equals_that_of_keras_in_values_and_gradients(jit_compile):
    layer, keras_layer = both()
    x, state = inputs(), (inputs(3)[:, :2, :3], inputs(4)[:, :2, :3])
    state = tuple(tf.reshape(part, [BATCH, UNITS]) for part in state)
    results = [
        values_and_gradients(lambda: run_lstm(layer.cell, x, state, jit_compile=jit_compile), layer, x, *state),
        values_and_gradients(lambda: keras_layer(x, initial_state=list(state)), keras_layer, x, *state),
    ]
    assert_close(results[0], results[1])


def test_a_row_of_padding_keeps_its_first_state():
    layer, _ = both()
    state = tf.ones([BATCH, UNITS]), 2 * tf.ones([BATCH, UNITS])
    outputs, hidden, memory_cell = run_lstm(layer.cell, inputs(), state, np.zeros([BATCH, LENGTH], bool))
    assert_close([outputs[:, -1], hidden, memory_cell], [state[0], *state])


@pytest.mark.parametrize("precision", ["mixed_bfloat16", slow("mixed_float16")])
def test_half_precision_is_close_to_float32(precision):
    layer, keras_layer = both()
    half = LSTM(UNITS, return_sequences=True, return_state=True, dtype=precision)
    half.build((None, None, WIDTH))
    half.set_weights(keras_layer.get_weights())
    x = tf.cast(inputs(), half.compute_dtype)
    halves, half_gradients = values_and_gradients(lambda: half(x, mask=MASK), half)
    values, gradients = values_and_gradients(lambda: layer(tf.cast(x, tf.float32), mask=MASK), layer)
    assert {value.dtype.name for value in halves} == {half.compute_dtype}
    assert_close([tf.cast(value, tf.float32) for value in halves], values, tolerance=0.02)
    for result, wanted in zip(half_gradients, gradients, strict=True):
        assert np.linalg.norm(tf.cast(result, tf.float32) - wanted) < 0.03 * np.linalg.norm(wanted)
