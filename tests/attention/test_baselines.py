"""Mechanisms that stand beside memory attention as baselines equal computations in NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.equations import LENGTHS, QUERIES, STATES, D, Q, U, array, read, softmax

from memattn.attention import LatentsAttention, StretchMeansAttention
from memattn.attention.stretch_means import stretch_weights


def betas(mechanism, queries, slots):
    """The weights of the slots [Q, K], read by address or additively."""
    if mechanism.read == "address":
        return softmax(queries @ array(mechanism.decoder_scores.kernel))
    keys = slots @ array(mechanism.key_layer.kernel)
    projected = queries @ array(mechanism.query_layer.kernel) + array(mechanism.query_layer.bias)
    return softmax(np.tanh(projected[:, None] + keys) @ array(mechanism.v))


def stretches(num_slots, length):
    """The shares [S, K] of stretch k that lie in position t, counted in hundred thousand points of the source."""
    points = (np.arange(100_000) + 0.5) / 100_000
    positions, slots = (points * length).astype(int), (points * num_slots).astype(int)
    counts = np.zeros([length, num_slots])
    np.add.at(counts, (positions, slots), 1)
    return counts / counts.sum(0)


@pytest.mark.parametrize("reading", ["address", "additive"])
@pytest.mark.parametrize("num_slots", [1, 3, 10])
def test_stretch_means_are_means_of_equal_stretches(num_slots, reading):
    mechanism = StretchMeansAttention(num_slots=num_slots, read=reading, read_units=7)
    _, contexts, alignments = read(mechanism, STATES, QUERIES)
    for b, length in enumerate(LENGTHS):
        alpha = stretches(num_slots, length)
        slots = alpha.T @ STATES[b, :length]
        beta = betas(mechanism, QUERIES[b], slots)
        np.testing.assert_allclose(contexts[b], beta @ slots, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(alignments[b, :, :length], beta @ alpha.T, rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(alignments[b, :, length:], 0)


def test_stretches_whose_ends_are_positions_are_plain_means():
    mask = tf.constant([[True] * 6 + [False], [False, *[True] * 3, False, *[True] * 2]])
    alpha = stretch_weights(3, mask, tf.float32)
    np.testing.assert_allclose(alpha[0, :6], np.repeat(np.eye(3), 2, 0) / 2, atol=1e-6)
    np.testing.assert_allclose(tf.reduce_sum(alpha, 1), np.ones([2, 3]), rtol=1e-6)
    np.testing.assert_array_equal(tf.boolean_mask(alpha, ~mask), 0)


def test_stretch_means_learn_no_writing_weights():
    mechanism = StretchMeansAttention(num_slots=4, read="address")
    mechanism(QUERIES, STATES)
    assert [tuple(weight.shape) for weight in mechanism.weights] == [(U, 4)]


@pytest.mark.parametrize("reading", ["address", "additive"])
def test_latents_are_one_cross_attention_block(reading):
    mechanism = LatentsAttention(num_slots=3, read=reading, read_units=7)
    read(mechanism, STATES, QUERIES)
    random = np.random.default_rng(3)
    for weight in mechanism.weights:  # biases and normalizations, too, differ from 0 and 1
        weight.assign(random.normal(size=weight.shape) / 2)
    _, contexts, alignments = read(mechanism, STATES, QUERIES)

    def norm(layer, x):
        scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + layer.epsilon)
        return scaled * array(layer.gamma) + array(layer.beta)

    def gelu(x):
        return tf.nn.gelu(tf.constant(x)).numpy()

    z = array(mechanism.z)
    for b, length in enumerate(LENGTHS):
        states = norm(mechanism.state_norm, STATES[b, :length].astype(np.float64))
        queries = norm(mechanism.latent_norm, z) @ array(mechanism.latent_query.kernel)
        alpha = softmax(queries @ (states @ array(mechanism.latent_key.kernel)).T / np.sqrt(D))  # [K, S]
        y = z + alpha @ states @ array(mechanism.latent_value.kernel) @ array(mechanism.latent_output.kernel)
        hidden = norm(mechanism.slot_norm, y) @ array(mechanism.expand.kernel) + array(mechanism.expand.bias)
        slots = y + gelu(hidden) @ array(mechanism.contract.kernel) + array(mechanism.contract.bias)
        beta = betas(mechanism, QUERIES[b], slots)
        np.testing.assert_allclose(contexts[b], beta @ slots, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(alignments[b, :, :length], beta @ alpha, rtol=1e-3, atol=1e-5)
        np.testing.assert_array_equal(alignments[b, :, length:], 0)
    assert contexts.shape == (len(LENGTHS), Q, D)
