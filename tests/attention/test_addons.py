"""Mechanisms equal those of tensorflow-addons; tests/docs/test_from_tfa.py compares Bahdanau attention and searches."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from helpers.equations import LENGTHS, QUERIES, STATES, B, S, U, mask, read

from memattn.attention import LuongAttention, MonotonicAttention

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the library warns that its development has ended
    tfa = pytest.importorskip("tensorflow_addons", reason="needs the extra addons: make test-addons")

pytestmark = pytest.mark.slow


def test_luong_equals_that_of_tensorflow_addons():
    ours, theirs = LuongAttention(units=U, scale=0.3), tfa.seq2seq.LuongAttention(U, scale=True)
    theirs.setup_memory(tf.constant(STATES), memory_sequence_length=LENGTHS)
    theirs([tf.constant(QUERIES[:, 0]), tf.zeros([B, S])])  # makes the weights
    theirs.scale_weight.assign(0.3)
    expected = [theirs([tf.constant(query), tf.zeros([B, S])])[0] for query in np.swapaxes(QUERIES, 0, 1)]
    read(ours)  # makes the weights
    ours.key_layer.kernel.assign(theirs.memory_layer.kernel)
    np.testing.assert_allclose(read(ours)[0], np.stack(expected, 1), atol=1e-5)


def test_monotonic_attention_equals_that_of_tensorflow_addons():
    states, query, before = tf.constant(STATES), tf.constant(QUERIES[:, 0]), tf.one_hot([0] * B, S)
    theirs = tfa.seq2seq.BahdanauMonotonicAttention(
        U, memory=states, memory_sequence_length=LENGTHS, normalize=True, sigmoid_noise=0.0, mode="recursive"
    )
    theirs([query, before])  # makes the weights
    ours = MonotonicAttention(units=U, test_mode="soft")
    ours.build(query[:, None].shape, states.shape)
    energy = ours.stop_energy
    energy.query_layer.kernel.assign(theirs.query_layer.kernel)
    energy.key_layer.kernel.assign(theirs.memory_layer.kernel)
    energy.v.assign(theirs.attention_v)
    energy.g.assign(theirs.attention_g)
    energy.r.assign(theirs.attention_score_bias)
    weights, _ = ours.score(query[:, None], ours.memorize(states, tf.constant(mask())), before[:, None])
    np.testing.assert_allclose(weights[:, 0], theirs([query, before])[0], atol=1e-5)
