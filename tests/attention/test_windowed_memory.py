"""Windowed memory attention and memory variants equal computations in NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.equations import LENGTHS, QUERIES, SCORING, STATES, B, D, Q, U, read, softmax
from studies.mechanisms.memory_variant import MemoryVariantAttention

from memattn.attention import WindowedMemoryAttention


def additive(mechanism, query, slots):
    """Returns the logits of beta [K] for a query [U] and slots [K, D]."""
    query = query @ mechanism.query_layer.kernel.numpy() + mechanism.query_layer.bias.numpy()
    return np.tanh(query + slots @ mechanism.key_layer.kernel.numpy()) @ tf.convert_to_tensor(mechanism.v).numpy()


@pytest.mark.parametrize(("scoring", "normalize"), [("softmax", "time"), ("softmax_time", "none")])
def test_mixed_precision_is_finite_for_long_sources(scoring, normalize):
    layer = MemoryVariantAttention(
        num_slots=1, encoder_scoring=scoring, encoder_normalize=normalize, dtype="mixed_float16"
    )
    states = tf.ones([1, 10_000, 2], tf.float16)
    rows = layer.memorize(states, tf.ones([1, 10_000], tf.bool))["values"]
    np.testing.assert_allclose(rows, np.ones([1, 1, 2]), rtol=0.01)


@pytest.mark.parametrize("num_slots", [1, 3, 8])
@pytest.mark.parametrize("encoder_scoring", [*SCORING, "softmax_time"])
@pytest.mark.parametrize("decoder_scoring", SCORING)
@pytest.mark.parametrize("encoder_normalize", ["none", "time"])
@pytest.mark.parametrize("reading", ["address", "additive"])
def test_a_variant_equals_numpy_for_all_scorings_and_ways_of_reading(
    num_slots, encoder_scoring, decoder_scoring, encoder_normalize, reading
):
    mechanism = MemoryVariantAttention(
        num_slots=num_slots,
        encoder_scoring=encoder_scoring,
        decoder_scoring=decoder_scoring,
        encoder_normalize=encoder_normalize,
        vote_scale=2.5,
        read=reading,
        read_units=7,
    )
    read(mechanism, STATES, QUERIES)
    if reading == "additive":
        mechanism.query_layer.bias.assign(np.random.default_rng(2).normal(size=7))
    _, contexts, alignments = read(mechanism, STATES, QUERIES)
    w_alpha = mechanism.encoder_scores.kernel.numpy()
    for b in range(B):
        real = STATES[b, : LENGTHS[b]].astype(np.float64)
        logits = real @ w_alpha  # [S, K]
        alpha = softmax(logits.T).T if encoder_scoring == "softmax_time" else SCORING[encoder_scoring](logits)
        if encoder_normalize == "time":
            alpha = alpha / alpha.sum(0)
        alpha = 2.5 * alpha
        memory = alpha.T @ real  # [K, D]
        for q in range(Q):
            if reading == "address":
                logits = QUERIES[b, q] @ mechanism.decoder_scores.kernel.numpy()
            else:
                logits = additive(mechanism, QUERIES[b, q], memory)
            beta = SCORING[decoder_scoring](logits)
            np.testing.assert_allclose(contexts[b, q], beta @ memory, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(alignments[b, q, : LENGTHS[b]], alpha @ beta, rtol=1e-4, atol=1e-6)
            np.testing.assert_array_equal(alignments[b, q, LENGTHS[b] :], 0)


def windowed_logits(mechanism, states):
    """The logits of alpha [S, K] for the states [S, D] of a source, each slot with its window."""
    logits = states.astype(np.float64) @ mechanism.encoder_scores.kernel.numpy()
    length, num_slots = logits.shape
    for k in range(num_slots):
        middle, deviation = (k + 0.5) * length / num_slots, max(length / num_slots, 1) / 4
        for s in range(length):
            logits[s, k] += max(-((s + 0.5 - middle) ** 2) / (2 * deviation**2), -8)
    return logits


@pytest.mark.parametrize("num_slots", [1, 3, 8])
@pytest.mark.parametrize("encoder_scoring", [*SCORING, "softmax_time"])
def test_a_variant_with_position_windows_equals_numpy(num_slots, encoder_scoring):
    mechanism = MemoryVariantAttention(num_slots=num_slots, encoder_scoring=encoder_scoring, position_windows=True)
    _, contexts, _ = read(mechanism, STATES, QUERIES)
    for b, length in enumerate(LENGTHS):
        logits = windowed_logits(mechanism, STATES[b, :length])
        alpha = softmax(logits.T).T if encoder_scoring == "softmax_time" else SCORING[encoder_scoring](logits)
        beta = softmax(QUERIES[b] @ mechanism.decoder_scores.kernel.numpy())  # [Q, K]
        np.testing.assert_allclose(contexts[b], beta @ alpha.T @ STATES[b, :length], rtol=1e-4, atol=1e-5)


def test_windows_skip_padding_wherever_it_is():
    mechanism = WindowedMemoryAttention(num_slots=4)
    query, value = tf.random.stateless_normal([1, 2, U], [1, 2]), tf.random.stateless_normal([1, 5, D], [3, 4])
    padding, real = tf.zeros([1, 3, D]), tf.ones([1, 5], tf.bool)
    plain = mechanism(query, value)
    for before, after in ((3, 0), (0, 3)):
        padded = tf.concat([padding[:, :before], value, padding[:, :after]], 1)
        mask = tf.pad(real, [[0, 0], [before, after]])
        np.testing.assert_allclose(mechanism(query, padded, value_mask=mask), plain, rtol=1e-5, atol=1e-6)


def test_windows_of_a_source_twice_as_long_hold_two_positions_each():
    mechanism = WindowedMemoryAttention(num_slots=8)
    states, mask = tf.random.stateless_normal([1, 16, D], [1, 2]), tf.ones([1, 16], tf.bool)
    mechanism.build((1, 1, U), (1, 16, D))
    mechanism.encoder_scores.kernel.assign(tf.zeros_like(mechanism.encoder_scores.kernel))
    alpha = mechanism.memorize(states, mask)["alpha"][0]  # [S, K]
    np.testing.assert_array_equal(np.argsort(alpha, 0)[-2:].T // 2, np.repeat(np.arange(8)[:, None], 2, 1))
    np.testing.assert_array_less(0.7, np.sum(np.sort(alpha, 0)[-2:], 0))


@pytest.mark.parametrize("num_slots", [1, 3, 8])
@pytest.mark.parametrize("reading", ["address", "additive"])
def test_windowed_memory_is_a_softmax_over_time_of_logits_and_windows(num_slots, reading):
    mechanism = WindowedMemoryAttention(num_slots=num_slots, read=reading, read_units=7)
    read(mechanism, STATES, QUERIES)
    if reading == "additive":
        mechanism.query_layer.bias.assign(np.random.default_rng(2).normal(size=7))
    _, contexts, alignments = read(mechanism, STATES, QUERIES)
    for b, length in enumerate(LENGTHS):
        logits = windowed_logits(mechanism, STATES[b, :length])
        alpha = softmax(logits.T).T  # [S, K]
        slots = alpha.T @ STATES[b, :length]
        for q in range(Q):
            if reading == "address":
                beta = softmax(QUERIES[b, q] @ mechanism.decoder_scores.kernel.numpy())
            else:
                beta = softmax(additive(mechanism, QUERIES[b, q], slots))
            np.testing.assert_allclose(contexts[b, q], beta @ slots, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(alignments[b, q, :length], alpha @ beta, rtol=1e-4, atol=1e-6)
            np.testing.assert_array_equal(alignments[b, q, length:], 0)


@pytest.mark.parametrize("reading", ["address", "additive"])
def test_a_variant_with_all_options_of_windowed_memory_is_windowed_memory(reading):
    windowed = WindowedMemoryAttention(num_slots=3, read=reading, read_units=7)
    variant = MemoryVariantAttention(
        num_slots=3, encoder_scoring="softmax_time", position_windows=True, read=reading, read_units=7
    )
    read(windowed, STATES, QUERIES)
    read(variant, STATES, QUERIES)
    variant.set_weights(windowed.get_weights())
    outputs = zip(read(windowed, STATES, QUERIES), read(variant, STATES, QUERIES), strict=True)
    for windowed_output, variant_output in outputs:
        np.testing.assert_allclose(windowed_output, variant_output, rtol=1e-6, atol=1e-7)
