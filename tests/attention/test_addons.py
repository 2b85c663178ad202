"""Attention mechanisms and beam search equal those of tensorflow-addons, an independent implementation."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.fake_search import END, START, TABLE, V, hypotheses_of, next_code, search
from helpers.mechanisms import ADDONS_NAMES

from memattn.attention import BahdanauAttention, LuongAttention, LuongDotAttention, MonotonicAttention
from memattn.attention.monotonic import next_alpha

if not ADDONS_NAMES:
    pytest.skip("needs the extra addons: make test-addons", allow_module_level=True)

from helpers.addons import AddonsBahdanauAttention, AddonsLuongAttention, tfa  # it suppresses the warning of tfa

pytestmark = pytest.mark.slow

B, S, D, Q, U = 3, 7, 8, 4, 6
RANDOM = np.random.default_rng(5)
STATES = tf.constant(RANDOM.normal(size=(B, S, D)), tf.float32)
QUERIES = tf.constant(RANDOM.normal(size=(B, Q, U)), tf.float32)
MASK = tf.sequence_mask([7, 4, 1], S)


def built(mechanism):
    """The mechanism, with its weights made."""
    mechanism.score(QUERIES, mechanism.memorize(STATES, MASK))
    return mechanism


def read(mechanism, states=STATES, queries=QUERIES):
    """Scores [B, Q, S] and contexts [B, Q, D] of a mechanism."""
    memory = mechanism.memorize(states, MASK)
    scores, _ = mechanism.score(queries, memory)
    return scores.numpy(), tf.matmul(scores, memory["values"]).numpy()


def assert_same(ours, theirs):
    for our_array, their_array in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(our_array, their_array, atol=1e-5)


@pytest.mark.parametrize("cache_keys", [True, False])
def test_bahdanau_equals_that_of_tensorflow_addons(cache_keys):
    ours, theirs = built(BahdanauAttention(units=U, cache_keys=cache_keys)), built(AddonsBahdanauAttention(units=U))
    ours.query_layer.kernel.assign(theirs.mechanism.query_layer.kernel)
    ours.key_layer.kernel.assign(theirs.mechanism.memory_layer.kernel)
    ours.v.assign(theirs.mechanism.attention_v)
    assert_same(read(ours), read(theirs))


def test_luong_equals_that_of_tensorflow_addons():
    ours, theirs = built(LuongAttention(units=U)), built(AddonsLuongAttention(units=U))
    ours.key_layer.kernel.assign(theirs.mechanism.memory_layer.kernel)
    assert_same(read(ours), read(theirs))


def test_luong_dot_equals_luong_of_tensorflow_addons_with_an_identity_projection():
    states, queries = STATES[:, :, :U], QUERIES
    theirs = AddonsLuongAttention(units=U, initializer="identity")
    assert_same(read(LuongDotAttention(), states, queries), read(theirs, states, queries))


@pytest.mark.parametrize("mode", ["recursive", "hard"])
def test_monotonic_attention_equals_that_of_tensorflow_addons(mode):
    """Their function takes a single query per source: its stopping probabilities and the previous weights."""
    before = tf.one_hot([0] * 5, S)
    for step in range(4):
        p = tf.random.stateless_uniform([5, S], [3, step])
        if mode == "hard":
            p = tf.cast(p > 0.6, tf.float32)
        expected = tfa.seq2seq.monotonic_attention(p, before, mode)
        np.testing.assert_allclose(next_alpha(p[:, None], before[:, None])[:, 0], expected, atol=1e-6)
        before = expected


def test_the_energy_of_monotonic_attention_equals_that_of_tensorflow_addons():
    theirs = tfa.seq2seq.BahdanauMonotonicAttention(
        U, memory=STATES, memory_sequence_length=[7, 4, 1], normalize=True, sigmoid_noise=0.0, mode="recursive"
    )
    ours = MonotonicAttention(units=U, test_mode="soft")
    memory, before = ours.memorize(STATES, MASK), tf.one_hot([0] * B, S)
    ours.score(QUERIES[:, :1], memory, before[:, None])  # creates the weights
    theirs([QUERIES[:, 0], before])
    energy = ours.stop_energy
    energy.query_layer.kernel.assign(theirs.query_layer.kernel)
    energy.key_layer.kernel.assign(theirs.memory_layer.kernel)
    energy.v.assign(theirs.attention_v)
    energy.g.assign(theirs.attention_g)
    energy.r.assign(theirs.attention_score_bias)
    weights, _ = ours.score(QUERIES[:, :1], ours.memorize(STATES, MASK), before[:, None])
    np.testing.assert_allclose(weights[:, 0], theirs([QUERIES[:, 0], before])[0], atol=1e-5)


class FakeCell(tf.keras.layers.AbstractRNNCell):
    """The fake model of helpers.fake_search as a cell for their decoder: inputs are tokens, outputs logits."""

    state_size, output_size = 1, V

    def call(self, inputs, states):
        code = next_code(tf.cast(states, tf.int32), tf.cast(inputs, tf.int32))  # [B * k, 1]
        return tf.gather(tf.constant(TABLE), code[:, 0]), tf.cast(code, tf.float32)


def their_search(sources, max_length, beam_size):
    """Tokens [B, L, k] and log-probabilities [B, k] of the hypotheses of `tfa.seq2seq.BeamSearchDecoder`."""
    decoder = tfa.seq2seq.BeamSearchDecoder(
        FakeCell(),
        beam_size,
        embedding_fn=lambda tokens: tf.cast(tokens, tf.float32)[..., None],
        maximum_iterations=max_length,
    )
    outputs, final, _ = decoder(
        None,
        start_tokens=tf.fill([len(sources)], START),
        end_token=END,
        initial_state=tfa.seq2seq.tile_batch(tf.constant(sources, tf.float32)[:, None], beam_size),
    )
    return outputs.predicted_ids.numpy(), final.log_probs.numpy()


def before_end(tokens):
    """The tokens before the end of sentence; all of them if there is none."""
    return tuple(tokens[: tokens.index(END)] if END in tokens else tokens)


@pytest.mark.parametrize("beam_size", [1, 3, 5, 10])
def test_beam_search_equals_that_of_tensorflow_addons(beam_size):
    """Without a length penalty: there, the end of sentence counts for it, unlike in google/seq2seq and here."""
    sources = list(range(20, 40))
    tokens, log_probs = their_search(sources, 9, beam_size)
    ours = search(sources, [9] * len(sources), beam_size=beam_size)
    for row in range(len(sources)):
        our_tokens, our_scores = zip(*hypotheses_of(ours, row), strict=True)
        assert list(our_tokens) == [before_end(tokens[row, :, k].tolist()) for k in range(beam_size)]
        np.testing.assert_allclose(our_scores, log_probs[row], rtol=1e-5)
