"""Mechanisms with slots that extend the paper's memory, and the layer SlotMemory, equal computations in NumPy."""

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
    S,
    additive_energies,
    array,
    dense,
    layer_norm,
    mask,
    randomize,
    read,
    softmax,
)
from studies.mechanisms.memory_variant import MemoryVariantAttention
from studies.mechanisms.nested_memory import NestedMemoryAttention

from memattn import MemoryAttention, SlotMemory
from memattn.attention import LatentsAttention, StretchMeansAttention, WindowedMemoryAttention
from memattn.options import OptionError

every_reading = pytest.mark.parametrize("reading", ["address", "additive"])


def over_time(logits):
    """The softmax over the positions of logits [S, K]."""
    return softmax(logits.T).T


def windows(num_slots, length):
    """The windows [S, K] of a source: -d^2 / (2 sigma^2), at least -8."""
    table = np.zeros([length, num_slots])
    for s, k in np.ndindex(*table.shape):
        middle, deviation = (k + 0.5) * length / num_slots, max(length / num_slots, 1) / 4
        table[s, k] = max(-((s + 0.5 - middle) ** 2) / (2 * deviation**2), -8)
    return table


def stretches(num_slots, length):
    """The fraction [S, K] of stretch k that lies in position t, counted in a hundred thousand points of the source."""
    points = (np.arange(100_000) + 0.5) / 100_000
    positions, slots = (points * length).astype(int), (points * num_slots).astype(int)
    counts = np.zeros([length, num_slots])
    np.add.at(counts, (positions, slots), 1)
    return counts / counts.sum(0)


def assert_slots(mechanism, write, scoring="softmax"):
    """Contexts and alignments equal NumPy's, with random weights.

    `write(states)` returns alpha [S, K] and the slots [K, D] for the states [S, D] of a source.
    """
    read(mechanism)  # makes the weights
    randomize(mechanism.weights)
    _, contexts, alignments = read(mechanism)
    for b, length in enumerate(LENGTHS):
        states = STATES[b, :length].astype(np.float64)
        alpha, slots = write(states)
        if mechanism.read == "address":
            logits = dense(mechanism.decoder_scores, QUERIES[b])
        else:
            logits = additive_energies(mechanism, QUERIES[b], slots)
        beta = SCORING[scoring](logits)
        np.testing.assert_allclose(contexts[b], beta @ slots, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(alignments[b, :, :length], beta @ alpha.T, rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(alignments[b, :, length:], 0)


@every_reading
@pytest.mark.parametrize("num_slots", [1, 3, 8])
def test_windowed_memory_is_a_softmax_over_time_of_logits_and_windows(num_slots, reading):
    mechanism = WindowedMemoryAttention(num_slots=num_slots, read=reading, read_units=7)

    def write(states):
        alpha = over_time(dense(mechanism.encoder_scores, states) + windows(num_slots, len(states)))
        return alpha, alpha.T @ states

    assert_slots(mechanism, write)


@every_reading
@pytest.mark.parametrize("num_slots", [1, 3, 10])
def test_stretch_means_are_means_of_equal_stretches_and_learn_no_writing_weights(num_slots, reading):
    mechanism = StretchMeansAttention(num_slots=num_slots, read=reading, read_units=7)

    def write(states):
        alpha = stretches(num_slots, len(states))
        return alpha, alpha.T @ states

    assert_slots(mechanism, write)
    assert len(mechanism.weights) == {"address": 1, "additive": 4}[reading]


@every_reading
def test_latents_are_one_cross_attention_block(reading):
    mechanism = LatentsAttention(num_slots=3, read=reading, read_units=7)

    def write(states):
        z, normal = array(mechanism.z), layer_norm(mechanism.state_norm, states)
        queries = dense(mechanism.latent_query, layer_norm(mechanism.latent_norm, z))
        alpha = softmax(queries @ dense(mechanism.latent_key, normal).T / np.sqrt(D))  # [K, S]
        y = z + dense(mechanism.latent_output, alpha @ dense(mechanism.latent_value, normal))
        hidden = dense(mechanism.expand, layer_norm(mechanism.slot_norm, y))
        return alpha.T, y + dense(mechanism.contract, tf.nn.gelu(hidden).numpy())

    assert_slots(mechanism, write)


@pytest.mark.parametrize("encoder_scoring", [*SCORING, "softmax_time"])
@pytest.mark.parametrize("encoder_normalize", ["none", "time"])
@pytest.mark.parametrize("windows_option", [{}, {"position_windows": True}, {"free_windows": True}])
@pytest.mark.parametrize(
    ("num_slots", "decoder_scoring", "reading"), [(3, "softmax", "additive"), (8, "sigmoid", "address")]
)
def test_a_variant_of_memory_has_the_parts_that_its_options_name(
    num_slots, encoder_scoring, encoder_normalize, windows_option, decoder_scoring, reading
):
    mechanism = MemoryVariantAttention(
        num_slots=num_slots,
        encoder_scoring=encoder_scoring,
        decoder_scoring=decoder_scoring,
        encoder_normalize=encoder_normalize,
        vote_scale=2.5,
        read=reading,
        read_units=7,
        **windows_option,
    )

    def write(states):
        scale = array(mechanism.window_scale) if "free_windows" in windows_option else bool(windows_option)
        logits = dense(mechanism.encoder_scores, states) + scale * windows(num_slots, len(states))
        alpha = {**SCORING, "softmax_time": over_time}[encoder_scoring](logits)
        alpha = 2.5 * (alpha / alpha.sum(0) if encoder_normalize == "time" else alpha)
        return alpha, alpha.T @ states

    assert_slots(mechanism, write, decoder_scoring)


@pytest.mark.parametrize(("scoring", "normalize"), [("softmax", "time"), ("softmax_time", "none")])
def test_mixed_precision_is_finite_for_long_sources(scoring, normalize):
    layer = MemoryVariantAttention(
        num_slots=1, encoder_scoring=scoring, encoder_normalize=normalize, dtype="mixed_float16"
    )
    states = tf.ones([1, 10_000, 2], tf.float16)
    slots = layer.memorize(states, tf.ones([1, 10_000], tf.bool))["values"]
    np.testing.assert_allclose(slots, np.ones([1, 1, 2]), rtol=0.05)  # TensorFlow 2.15 adds float16 in float16


WRITING = {  # the weights alpha [S, K] of each way in which SlotMemory writes, by logits [S, K]
    "windows": lambda logits: over_time(logits + windows(*logits.shape[::-1])),
    "weights": over_time,
    "means": lambda logits: stretches(*logits.shape[::-1]),
}


@pytest.mark.parametrize("writing", WRITING)
def test_the_layer_writes_slots_of_the_positions_that_are_no_padding(writing):
    layer = SlotMemory(3, writing)
    layer(STATES)
    for real in ([False, True, True, False, True, True, True], [True] * 5 + [False] * 2):
        slots, weights = layer(STATES, mask=np.array([real] * len(STATES)), return_attention_scores=True)
        assert not weights.numpy()[:, :, ~np.array(real)].any()
        for states, slots_of_source, alpha in zip(STATES[:, real], slots, weights.numpy()[:, :, real], strict=True):
            logits = np.zeros([len(states), 3]) if writing == "means" else dense(layer.encoder_scores, states)
            np.testing.assert_allclose(alpha, WRITING[writing](logits).T, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(alpha @ states, slots_of_source, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("writing", WRITING)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_layer_in_a_model_of_unknown_length_masks_padding(writing, dtype):
    source = tf.keras.Input([None], dtype="int32")
    states = tf.keras.layers.Embedding(9, D, mask_zero=True)(source)
    slots = SlotMemory(3, writing, dtype=dtype)(states)
    assert tuple(slots.shape) == (None, 3, D)
    assert getattr(slots, "_keras_mask", None) is None
    model = tf.keras.Model(source, slots)
    short = model(np.array([[5, 6, 7, 8]]))
    np.testing.assert_allclose(model(np.array([[0, 5, 6, 0, 7, 8]])), short, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(model(np.zeros([1, S], int)), np.zeros([1, 3, D]))


def test_options_of_the_layer_are_checked():
    with pytest.raises(OptionError, match="writing: 'window' is none of windows, weights, means; did you mean windows"):
        SlotMemory(3, "window")


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (([2, 6],), r"states: expected \[B, S, D\], not shape \(2, 6\)"),
        (([2, 5, 6], [2, 1, 5]), r"mask: expected \[B, S\], not shape \(2, 1, 5\); from lengths"),
        (([2, 5, 6], [2]), r"mask: expected \[B, S\], not shape \(2,\); from lengths"),
        (([2, 5, 6], [2, 4]), r"mask: expected \[B, S\] = \(2, 5\), not shape \(2, 4\)"),
    ],
)
def test_the_layer_refuses_wrong_shapes(shapes, message):
    states, *masks = map(np.ones, shapes)
    with pytest.raises(ValueError, match=message):
        SlotMemory(3, "weights")(states, *map(tf.constant, masks))


def nested(**options):
    attention = NestedMemoryAttention(num_slots=8, **options)
    attention(QUERIES, STATES)
    return attention


def assert_only_first_slots(contexts, attention, slots, **options):
    """The contexts [B, Q, D] are those of memories with only the first slots, as many as `slots` [B], and no others."""
    for row, (length, number) in enumerate(zip(LENGTHS, slots, strict=True)):
        small = MemoryAttention(num_slots=number, **options)
        states, queries = STATES[row : row + 1, :length], QUERIES[row : row + 1]
        small(queries, states)
        small.encoder_scores.kernel.assign(attention.encoder_scores.kernel[:, :number])
        small.decoder_scores.kernel.assign(attention.decoder_scores.kernel[:, :number])
        np.testing.assert_allclose(contexts[row], small(queries, states)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("encoder", "decoder"), list(itertools.product(SCORING, SCORING)))
def test_each_source_trains_with_its_first_slots_alone(encoder, decoder):
    options = {"encoder_scoring": encoder, "decoder_scoring": decoder}
    attention, used = nested(**options), set()
    for seed in range(8):
        memory = attention.memorize_in_training(tf.constant(STATES), tf.constant(mask()), tf.constant([seed, 1]))
        scores, _ = attention.score(tf.constant(QUERIES), memory)
        slots = memory["used"].numpy().sum((1, 2))
        assert_only_first_slots(tf.matmul(scores, memory["values"]), attention, slots, **options)
        used.update(slots)
    assert 1 <= min(used) < max(used) <= 8
    assert len(used) > 4


@pytest.mark.parametrize("slots", [1, 3, 8])
def test_a_memory_is_cut_to_its_first_slots(slots):
    attention = nested()
    attention.keep(slots)
    assert_only_first_slots(attention(QUERIES, STATES, value_mask=mask()), attention, [slots] * B)
    memory = attention.memorize(tf.constant(STATES), tf.constant(mask()))
    assert memory["values"].shape[1] == min(slots, S)
