"""Against tensorflow-addons, an independent implementation: attention mechanisms and beam search."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.fake_search import END, START, TABLE, V, hypotheses_of, next_code, plain_beam_search, search

from memattn.attention import MECHANISMS, build
from memattn.attention.monotonic import next_alpha

if "tfa_bahdanau" not in MECHANISMS:
    pytest.skip("needs the extra addons: make test-addons", allow_module_level=True)

from memattn.attention.addons import tfa  # imported without its warning

pytestmark = pytest.mark.slow

B, S, D, Q, U = 3, 7, 8, 4, 6
RANDOM = np.random.default_rng(5)
STATES = tf.constant(RANDOM.normal(size=(B, S, D)), tf.float32)
QUERIES = tf.constant(RANDOM.normal(size=(B, Q, U)), tf.float32)
MASK = tf.sequence_mask([7, 4, 1], S)


def made(name, **options):
    mechanism = build(name, options, units=U, initializer="glorot_uniform")
    mechanism.score(QUERIES, mechanism.memorize(STATES, MASK))
    return mechanism


def read(mechanism, states=STATES, queries=QUERIES):
    memory = mechanism.memorize(states, MASK)
    scores, _ = mechanism.score(queries, memory)
    return scores.numpy(), tf.matmul(scores, memory["values"]).numpy()


def assert_same(one, other):
    for own, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(own, theirs, atol=1e-5)


@pytest.mark.parametrize("cache_keys", [True, False])
def test_bahdanau_equals_that_of_tensorflow_addons(cache_keys):
    ours, theirs = made("bahdanau", cache_keys=cache_keys), made("tfa_bahdanau")
    ours.query_layer.kernel.assign(theirs.mechanism.query_layer.kernel)
    ours.key_layer.kernel.assign(theirs.mechanism.memory_layer.kernel)
    ours.v.assign(theirs.mechanism.attention_v)
    assert_same(read(ours), read(theirs))


def test_luong_equals_that_of_tensorflow_addons():
    ours, theirs = made("luong"), made("tfa_luong")
    ours.key_layer.kernel.assign(theirs.mechanism.memory_layer.kernel)
    assert_same(read(ours), read(theirs))


def test_luong_dot_equals_luong_of_tensorflow_addons_with_an_identity_projection():
    states, queries = STATES[:, :, :U], QUERIES
    theirs = build("tfa_luong", {}, units=U, initializer="identity")
    assert_same(read(MECHANISMS["luong_dot"](), states, queries), read(theirs, states, queries))


@pytest.mark.parametrize("mode", ["recursive", "hard"])
def test_monotonic_attention_equals_that_of_tensorflow_addons(mode):
    """Their function takes one query of each source: stopping probabilities and the weights of the step before."""
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
    ours = build("monotonic", {"test_mode": "soft"}, units=U, initializer="glorot_uniform")
    memory, before = ours.memorize(STATES, MASK), tf.one_hot([0] * B, S)
    ours.score(QUERIES[:, :1], memory, before[:, None])  # makes its weights
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
    """The fake model of test_beam_search as one of their cells: its inputs are tokens, its outputs logits."""

    state_size, output_size = 1, V

    def call(self, inputs, states):
        code = next_code(tf.cast(states, tf.int32), tf.cast(inputs, tf.int32))  # [B * k, 1]
        return tf.gather(tf.constant(TABLE), code[:, 0]), tf.cast(code, tf.float32)


def their_search(sources, max_length, beam_size, penalty):
    """Tokens [B, L, k], and log-probabilities [B, k] of the hypotheses that `tfa.seq2seq.BeamSearchDecoder` finds."""
    decoder = tfa.seq2seq.BeamSearchDecoder(
        FakeCell(),
        beam_size,
        embedding_fn=lambda tokens: tf.cast(tokens, tf.float32)[..., None],
        maximum_iterations=max_length,
        length_penalty_weight=penalty,
    )
    outputs, final, _ = decoder(
        None,
        start_tokens=tf.fill([len(sources)], START),
        end_token=END,
        initial_state=tfa.seq2seq.tile_batch(tf.constant(sources, tf.float32)[:, None], beam_size),
    )
    return outputs.predicted_ids.numpy(), final.log_probs.numpy()


def words_of(written):
    """Without the end of sentence and what follows it."""
    return tuple(written[: written.index(END)] if END in written else written)


@pytest.mark.parametrize("beam_size", [1, 3, 5, 10])
def test_beam_search_equals_that_of_tensorflow_addons(beam_size):
    sources = list(range(20, 40))
    tokens, log_probs = their_search(sources, 9, beam_size, 0.0)
    ours = search(sources, [9] * len(sources), beam_size=beam_size)
    for row in range(len(sources)):
        found = hypotheses_of(ours, row)
        assert [words for words, _ in found] == [words_of(tokens[row, :, k].tolist()) for k in range(beam_size)]
        np.testing.assert_allclose([score for _, score in found], log_probs[row], rtol=1e-5)


@pytest.mark.parametrize("penalty", [0.6, 1.0])
@pytest.mark.parametrize("beam_size", [3, 5])
def test_tensorflow_addons_counts_the_end_of_sentence_one_step_late(beam_size, penalty):
    """Their length of a hypothesis grows by one the step after it ended; google/seq2seq's does not, nor does ours."""
    sources = list(range(20, 40))
    tokens, _ = their_search(sources, 9, beam_size, penalty)
    ours = search(sources, [9] * len(sources), beam_size=beam_size, penalty=penalty)
    same = 0
    for row, source in enumerate(sources):
        theirs = [words_of(tokens[row, :, k].tolist()) for k in range(beam_size)]
        assert theirs == [words for words, _ in plain_beam_search(source, 9, beam_size, penalty, counted_end=1)]
        same += theirs == [words for words, _ in hypotheses_of(ours, row)]
    assert same
    assert (same < len(sources)) == ((beam_size, penalty) != (3, 0.6))  # where it changes what is found
