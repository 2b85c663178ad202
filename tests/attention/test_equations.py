"""Every equation of the paper equals a computation in NumPy that shares no code with the layers."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from helpers.equations import (
    LENGTHS,
    QUERIES,
    SCORING,
    STATES,
    B,
    D,
    Q,
    S,
    U,
    additive_energies,
    array,
    randomize,
    read,
    softmax,
)

from memattn import attention
from memattn.attention.memory import position_encodings


def renormalized(k, s, length, num_slots, longest, renormalize):
    """Entry (k, s), 1-based, of the position encodings of a source: Eq. 10, renormalized as the text below it says."""

    def entry(k, s):
        s = min(s, longest)
        return (1 - k / num_slots) * (1 - s / longest) + (k / num_slots) * (s / longest)

    total = sum(entry(k, position) for position in range(1, length + 1))
    return entry(k, s) * {"none": 1, "sum": 1 / total, "mean": length / total}[renormalize]


@pytest.mark.parametrize("num_slots", [1, 3, 8])
@pytest.mark.parametrize("encoder_scoring, decoder_scoring", list(itertools.product(SCORING, SCORING)))
@pytest.mark.parametrize("renormalize", [None, "sum", "mean", "none"])
def test_memory_attention_equals_equations_4_to_10(num_slots, encoder_scoring, decoder_scoring, renormalize):
    longest = 5  # shorter than the longest source here: later positions are encoded as position 5
    mechanism = attention.MemoryAttention(
        num_slots=num_slots,
        encoder_scoring=encoder_scoring,
        decoder_scoring=decoder_scoring,
        position_encoding=renormalize is not None,
        renormalize=renormalize or "sum",
        max_source_length=longest,
    )
    scores, contexts, alignments = read(mechanism)
    w_alpha, w_beta = array(mechanism.encoder_scores.kernel), array(mechanism.decoder_scores.kernel)
    for b in range(B):
        memory, alpha = np.zeros((num_slots, D)), np.zeros((S, num_slots))
        for t in range(LENGTHS[b]):
            logits = STATES[b, t] @ w_alpha
            if renormalize is not None:
                logits = logits * [
                    renormalized(k, t + 1, LENGTHS[b], num_slots, longest, renormalize) for k in range(1, num_slots + 1)
                ]  # Eq. 9
            alpha[t] = SCORING[encoder_scoring](logits)  # Eq. 5
            memory += np.outer(alpha[t], STATES[b, t])  # Eq. 4
        for q in range(Q):
            beta = SCORING[decoder_scoring](QUERIES[b, q] @ w_beta)  # Eq. 7
            scored = beta if num_slots <= S else alpha @ beta  # a source shorter than the memory is read by position
            np.testing.assert_allclose(scores[b, q], scored, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(contexts[b, q], beta @ memory, rtol=1e-4, atol=1e-5)  # Eq. 6
            np.testing.assert_allclose(alignments[b, q], alpha @ beta, rtol=1e-4, atol=1e-6)


def test_position_encodings_have_the_surface_of_figure_2():
    table = position_encodings(64, 50)
    assert table.shape == (50, 64)
    np.testing.assert_allclose(table[24, 31], 0.5, atol=1e-6)  # the stationary point, k/K = s/S = 1/2
    np.testing.assert_allclose(table[49], np.arange(1, 65) / 64, atol=1e-6)  # the last position prefers late slots
    np.testing.assert_allclose(table[:, 63], np.arange(1, 51) / 50, atol=1e-6)
    assert table[0, 0] > 0.95
    assert (np.diff(table[:, 0]) < 0).all()


def assert_content_attention(mechanism, energies, queries=QUERIES):
    """The weights are a softmax over the source of the energies [Q, S] of each source, the contexts their sums."""
    scores, contexts, alignments = read(mechanism, STATES, queries)
    np.testing.assert_array_equal(alignments, scores)
    for b, length in enumerate(LENGTHS):
        expected = softmax(energies(queries[b], STATES[b])[:, :length])  # Eq. 2
        np.testing.assert_allclose(scores[b, :, :length], expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(scores[b, :, length:], 0)
        np.testing.assert_allclose(contexts[b], expected @ STATES[b, :length], rtol=1e-4, atol=1e-5)  # Eq. 1


@pytest.mark.parametrize("cache_keys", [True, False])
def test_bahdanau_attention_equals_its_equations(cache_keys):
    mechanism = attention.BahdanauAttention(units=9, cache_keys=cache_keys)
    read(mechanism)
    randomize(mechanism.weights)
    assert_content_attention(mechanism, lambda queries, states: additive_energies(mechanism, queries, states))


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_luong_attention_equals_its_equations(scale):
    general, dot = attention.LuongAttention(units=U, scale=scale), attention.LuongDotAttention(scale=scale)
    assert_content_attention(
        general, lambda queries, states: scale * queries @ (states @ array(general.key_layer.kernel)).T
    )
    as_wide_as_states = np.random.default_rng(1).normal(size=(B, Q, D)).astype(np.float32)
    assert_content_attention(dot, lambda queries, states: scale * queries @ states.T, as_wide_as_states)


def test_luong_dot_refuses_queries_and_states_of_different_widths():
    with pytest.raises(ValueError, match="queries are 5 wide and keys 6"):
        read(attention.LuongDotAttention())


@pytest.mark.parametrize("name", ["luong", "local_m", "local_p"])
def test_units_that_are_not_the_width_of_the_queries_are_refused(name):
    layer = attention.MECHANISMS[name](units=5)
    with pytest.raises(ValueError, match="queries are 4 wide and keys 5"):
        layer(tf.zeros([1, 2, 4]), tf.zeros([1, 3, 6]))


def test_no_attention_has_contexts_of_width_0():
    scores, contexts, alignments = read(attention.NoAttention())
    assert scores.shape == contexts.shape == (B, Q, 0)
    np.testing.assert_array_equal(alignments, np.zeros((B, Q, S)))


@pytest.mark.parametrize("name", ["nothing", ["memory"]])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match="attention.name: .* is none of none, bahdanau"):
        attention.build(name, {})
