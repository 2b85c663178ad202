"""SlotMemory equals NumPy and the mechanisms that write as it does, and is an ordinary Keras layer."""

import numpy as np
import pytest
import tensorflow as tf

from memattn import SlotMemory
from memattn.attention import OptionError, StretchMeansAttention, WindowedMemoryAttention

K, D = 3, 4
STATES = np.random.default_rng(1).normal(size=(2, 7, D)).astype(np.float32)
MASK = np.array([[False, True, True, False, True, True, True], [True] * 5 + [False] * 2])


@pytest.mark.parametrize(
    ("writing", "mechanism"), [("windows", WindowedMemoryAttention), ("means", StretchMeansAttention)]
)
def test_slots_are_those_of_the_mechanism_that_writes_alike(writing, mechanism):
    layer, attention = SlotMemory(K, writing), mechanism(num_slots=K)
    attention.build((None, None, D), (None, None, D))
    layer(STATES)
    if writing == "windows":
        layer.encoder_scores.kernel.assign(attention.encoder_scores.kernel)
    slots = attention.memorize(tf.constant(STATES), tf.constant(MASK))["values"]
    np.testing.assert_allclose(layer(STATES, mask=MASK), slots, rtol=1e-5, atol=1e-6)


def test_weights_are_a_softmax_over_the_positions_that_are_no_padding():
    layer = SlotMemory(num_slots=K, writing="weights")
    slots, weights = layer(STATES, mask=MASK, return_attention_scores=True)
    for states, mask, expected, returned in zip(STATES, MASK, slots, weights.numpy(), strict=True):
        exponentials = np.exp(states[mask] @ layer.encoder_scores.kernel.numpy())
        alpha = exponentials / exponentials.sum(0)
        np.testing.assert_allclose(alpha.T @ states[mask], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(returned[:, mask], alpha.T, rtol=1e-5, atol=1e-6)
        assert not returned[:, ~mask].any()


@pytest.mark.parametrize("writing", ["windows", "weights", "means"])
def test_a_model_of_unknown_length_masks_padding_and_is_saved(writing, tmp_path):
    source = tf.keras.Input([None], dtype="int32")
    states = tf.keras.layers.Embedding(9, D, mask_zero=True)(source)
    slots = SlotMemory(K, writing)(states)
    assert tuple(slots.shape) == (None, K, D)
    assert getattr(slots, "_keras_mask", None) is None
    model = tf.keras.Model(source, slots)
    short = model.predict(np.array([[5, 6, 7, 8]]), verbose=0)
    np.testing.assert_allclose(model.predict(np.array([[0, 5, 6, 0, 7, 8]]), verbose=0), short, rtol=1e-5, atol=1e-6)
    assert not model.predict(np.zeros([1, 3]), verbose=0).any()
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(np.array([[5, 6, 7, 8]]), verbose=0), short, rtol=1e-6)


def test_a_wrong_way_of_writing_is_named():
    with pytest.raises(OptionError, match="writing: 'window' is none of windows, weights, means; did you mean windows"):
        SlotMemory(num_slots=K, writing="window")
