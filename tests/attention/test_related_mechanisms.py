"""Mechanisms of other papers equal their definitions.

Monotonic attention, MoChA, MILk and MAtChA are compared with an enumeration of all sequences of stops; local, location
and linear attention with NumPy.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from helpers import equations
from helpers.equations import randomize, sigmoid, softmax

from memattn.attention import build
from memattn.attention.monotonic import linear_recurrence, next_alpha
from memattn.attention.ops import SparseScores, contexts, dense_scores, run_loop

B, S, T, E = 2, 5, 3, 3
STATES, QUERIES, MASK = equations.STATES[:B, :S], equations.QUERIES[:B, :T], equations.mask()[:B, :S]
LENGTHS = MASK.sum(1)
D, U = STATES.shape[2], QUERIES.shape[2]
ARGUMENTS = {"units": E, "max_source_length": S, "initializer": "glorot_uniform"}


def scores_of(mechanism, seed=None):
    """Returns the scores [B, T, S] of the T queries, which are computed step by step, a query in each."""
    memory = mechanism.memorize(tf.constant(STATES), tf.constant(MASK))
    state, scores_by_step = mechanism.initial_state(memory, 1), []
    for step in range(T):
        scores, state = mechanism.score(tf.constant(QUERIES[:, step : step + 1]), memory, state, seed)
        scores_by_step.append(scores[:, 0])
    return tf.stack(scores_by_step, 1)


def randomized(mechanism, scale=1.5):
    """The mechanism, built, with all weights random."""
    mechanism.build((None, None, U), (None, None, D))
    randomize(mechanism.weights, scale)
    return mechanism


def energies(layer, row):
    """Energies [T, S] of the source in a row, computed from the weights of an energy layer."""
    (w_q, b), (w_k,) = layer.query_layer.get_weights(), layer.key_layer.get_weights()
    v, g = np.array(layer.v), float(np.array(layer.g))
    hidden = np.tanh((QUERIES[row] @ w_q + b)[:, None] + (STATES[row] @ w_k)[None])
    r = 0.0 if layer.r is None else float(np.array(layer.r))
    return g * hidden @ (v / np.linalg.norm(v)) + r


def enumerated(p, chunk=None):
    """Expected weights [T, S] of the process with stopping probabilities p [T, S], over all sequences of stops.

    `chunk(step, before, stop)` gives the weights [S] of a step that stops; by default, 1 at the stop.
    """
    steps, length = p.shape
    expected = np.zeros((steps, length))
    end = length  # the position of a query that stops nowhere
    for sequence in itertools.product(range(length + 1), repeat=steps):
        probability, before = 1.0, 0
        for step, stop in enumerate(sequence):
            if stop < before or (before == end and stop != end):
                probability = 0.0
                break
            probability *= np.prod(1 - p[step, before:stop]) * (p[step, stop] if stop < end else 1.0)
            before = stop
        if not probability:
            continue
        before = 0
        for step, stop in enumerate(sequence):
            if stop == end:
                break
            weights = np.eye(length)[stop] if chunk is None else chunk(step, before, stop)
            expected[step] += probability * weights
            before = stop
    return expected


def chunks(u, width):
    """Returns the `chunk` of `enumerated`: weights over the positions up to the stop.

    Of these positions, an int `width` takes the last `width`, None takes all, and "adaptive" those from the last stop.
    """

    def chunk(step, before, stop):
        first = {"adaptive": before, None: 0}[width] if width in ("adaptive", None) else max(0, stop - width + 1)
        weights = np.zeros(u.shape[1])
        weights[first : stop + 1] = softmax(u[step, first : stop + 1])
        return weights

    return chunk


KINDS = [
    ("monotonic", {}, 1),
    ("mocha", {"chunk_size": 2}, 2),
    ("mocha", {"chunk_size": 3}, 3),
    ("mocha", {"chunk_size": None}, None),
    ("matcha", {}, "adaptive"),
]


@pytest.mark.parametrize(("name", "options", "width"), KINDS)
@pytest.mark.parametrize("test_mode", ["soft", "hard"])
def test_weights_equal_those_of_the_enumerated_process(name, options, width, test_mode):
    mechanism = randomized(build(name, {**options, "test_mode": test_mode}, **ARGUMENTS))
    scores = scores_of(mechanism)
    for row, length in enumerate(LENGTHS):
        stop_energies = energies(mechanism.stop_energy, row)[:, :length]
        p = sigmoid(stop_energies) if test_mode == "soft" else (stop_energies > 0).astype(float)
        chunk = None
        if name != "monotonic":
            chunk = chunks(energies(mechanism.chunk_energy, row)[:, :length], width)
        expected = enumerated(p, chunk)
        np.testing.assert_allclose(scores[row, :, :length], expected, rtol=1e-4, atol=1e-6)
        assert np.all(scores[row, :, length:] == 0)


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_adaptive_chunks_and_their_gradients_are_finite_for_energies_75_apart(jit_compile):
    mechanism = randomized(build("matcha", {"test_mode": "soft"}, **ARGUMENTS))
    g = mechanism.chunk_energy.g
    spans = [np.ptp(energies(mechanism.chunk_energy, row)[:, :length]) for row, length in enumerate(LENGTHS)]
    g.assign(g * 75 / max(spans))

    @tf.function(jit_compile=jit_compile)
    def scores_and_gradients():
        with tf.GradientTape() as tape:
            scores = scores_of(mechanism)
            total = tf.reduce_sum(tf.square(scores))
        return scores, tape.gradient(total, mechanism.trainable_variables)

    scores, gradients = scores_and_gradients()
    for row, length in enumerate(LENGTHS):
        p = sigmoid(energies(mechanism.stop_energy, row)[:, :length])
        chunk = chunks(energies(mechanism.chunk_energy, row)[:, :length], "adaptive")
        np.testing.assert_allclose(scores[row, :, :length], enumerated(p, chunk), rtol=1e-4, atol=1e-6)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)


@pytest.mark.parametrize("name", ["monotonic", "mocha", "matcha"])
def test_noise_is_added_in_training_only_and_changes_with_the_seed(name):
    mechanism = randomized(build(name, {"test_mode": "soft", "noise": 2.0}, **ARGUMENTS))
    plain = scores_of(mechanism)
    noisy, noisy_by_other_seed = (scores_of(mechanism, tf.constant(seed)) for seed in ([1, 2], [1, 3]))
    assert np.abs(noisy - plain).max() > 1e-3
    assert np.abs(noisy - noisy_by_other_seed).max() > 1e-3


def test_the_option_is_the_standard_deviation_of_the_noise():
    states, queries = tf.repeat(STATES, 200, 0), tf.repeat(QUERIES, 200, 0)
    mask, logits = tf.ones(tf.shape(states)[:2], tf.bool), []
    for noise in (0.0, 1.0, 2.0):
        mechanism = randomized(build("monotonic", {"test_mode": "soft", "noise": noise}, **ARGUMENTS), scale=0.1)
        p = mechanism._p(queries, mechanism.memorize(states, mask), tf.constant([1, 2]))
        logits.append(np.log(p) - np.log(1 - p))
    np.testing.assert_allclose(logits[2] - logits[0], 2 * (logits[1] - logits[0]), atol=1e-3)
    assert abs(np.std(logits[1] - logits[0]) - 1) < 0.05


@pytest.mark.parametrize(("name", "options"), [("monotonic", {}), ("mocha", {"chunk_size": 3})])
def test_sparse_scores_of_a_search_equal_those_of_the_mechanism(name, options):
    """A search equals the mechanism for queries that stop early, late, at the same position again, or not at all."""
    random, length, queries = np.random.default_rng(7), 20, 4
    mechanism = randomized(build(name, options, **ARGUMENTS))
    mechanism.stop_energy.g.assign(4.0)
    mechanism.stop_energy.r.assign(-2.0)
    states = tf.constant(random.normal(size=[3, length, D]).astype(np.float32))
    memory = mechanism.memorize(states, tf.sequence_mask([20, 13, 1], length))
    search, stops_by_step = mechanism.for_search(), []
    state, stops = mechanism.initial_state(memory, queries), search.initial_state(memory, queries)
    for _ in range(6):
        query = tf.constant(random.normal(size=[3, queries, U]).astype(np.float32))
        expected, state = mechanism.score(query, memory, state)
        scores, stops = search.score(query, memory, stops)
        assert scores.positions.shape == scores.weights.shape == (3, queries, options.get("chunk_size", 1))
        np.testing.assert_allclose(dense_scores(scores, length), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(contexts(scores, states), expected @ states, rtol=1e-5, atol=1e-5)
        stops_by_step.append(stops.numpy())
    all_stops = np.ravel(stops_by_step)
    assert {0, length} < set(all_stops)
    assert np.ptp(all_stops[all_stops < length]) > 8  # positions are looked at in blocks of 8
    assert any(((before == after) & (before < length)).any() for before, after in itertools.pairwise(stops_by_step))


def test_weights_of_equal_positions_are_added():
    scores = SparseScores(tf.constant([[[2, 0, 2]]]), tf.constant([[[0.5, 0.25, 0.125]]]))
    np.testing.assert_allclose(dense_scores(scores, 4), [[[0.25, 0.0, 0.625, 0.0]]])
    values = tf.constant([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]])
    np.testing.assert_allclose(contexts(scores, values), contexts(dense_scores(scores, 4), values))


def test_the_steps_of_a_search_look_at_each_position_once(monkeypatch):
    """Positions are looked at in blocks of 8; T steps need at most S / 8 + T blocks, not T S / 8."""
    length, steps, looks = 250, 10, []
    mechanism = randomized(build("monotonic", {}, **ARGUMENTS))
    memory = mechanism.memorize(tf.zeros([1, length, D]), tf.ones([1, length], tf.bool))
    memory["stop_keys"] = tf.range(length, dtype=tf.float32)[None, :, None]
    search = mechanism.for_search()
    stop = search.initial_state(memory, 1)
    for target in range(24, 24 * steps + 1, 24):

        def energies(query, keys, target=target):
            looks.append(keys.shape[2])
            return tf.where(keys[..., 0] >= target, 1.0, -1.0)

        monkeypatch.setattr(mechanism.stop_energy, "energies", energies)
        _, stop = search.score(tf.zeros([1, 1, U]), memory, stop)
        assert int(stop[0, 0]) == target
    assert set(looks) == {8}
    assert len(looks) <= length / 8 + steps


def test_long_sources_lose_no_attention_weight():
    """Products of (1 - p) underflow here; dividing by them, as tensorflow-addons does, would lose later weights."""
    length = 300
    p = np.concatenate([np.full(100, 0.73), np.full(length - 100, 0.1)])
    before = np.eye(length)[150]
    expected, q = np.zeros(length), 0.0
    for j in range(length):
        q = (1 - p[j - 1]) * q + before[j] if j else before[0]
        expected[j] = p[j] * q
    alpha = next_alpha(tf.constant(p[None, None], tf.float32), tf.constant(before[None, None], tf.float32))
    np.testing.assert_allclose(alpha[0, 0], expected, rtol=1e-4, atol=1e-7)
    assert expected.sum() > 0.99


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9])
def test_the_recurrence_equals_a_loop(length):
    random = np.random.default_rng(1)
    factors, terms = random.normal(size=[2, 3, length]), random.normal(size=[2, 3, length])
    expected, x = [], np.zeros([2, 3])
    for j in range(length):
        x = factors[..., j] * x + terms[..., j]
        expected.append(x)
    actual = linear_recurrence(tf.constant(factors), tf.constant(terms))
    np.testing.assert_allclose(actual, np.stack(expected, -1), rtol=1e-6)
    for_any_length = tf.function(linear_recurrence, input_signature=[tf.TensorSpec([2, 3, None], tf.float64)] * 2)
    np.testing.assert_allclose(for_any_length(tf.constant(factors), tf.constant(terms)), actual, rtol=1e-12)


@pytest.mark.parametrize("name", ["local_m", "local_p"])
@pytest.mark.parametrize("window", [1, 2, 10])
def test_a_local_softmax_is_over_its_window(name, window):
    mechanism = randomized(build(name, {"window": window}, **{**ARGUMENTS, "units": U}))
    actual = scores_of(mechanism)
    (w_k,) = mechanism.key_layer.get_weights()
    for row, length in enumerate(LENGTHS):
        for step in range(T):
            query, positions = QUERIES[row, step], np.arange(length)
            scores = STATES[row, :length] @ w_k @ query
            centre, gaussian = float(step), np.ones(length)
            if name == "local_p":
                (w_p,), (v_p,) = (layer.get_weights() for layer in (mechanism.position_layer, mechanism.position_v))
                centre = (length - 1) * sigmoid(float(np.tanh(query @ w_p) @ v_p[:, 0]))
                gaussian = np.exp(-((positions - centre) ** 2) / (2 * (window / 2) ** 2))
            within = np.abs(positions - centre) <= window
            expected = np.zeros(length)
            if within.any():
                expected[within] = softmax(scores[within]) * gaussian[within]
            np.testing.assert_allclose(actual[row, step, :length], expected, rtol=1e-4, atol=1e-6)
            assert np.all(actual[row, step, length:] == 0)


@pytest.mark.parametrize("longest", [3, 5, 8])
def test_location_is_a_softmax_of_the_query_alone(longest):
    mechanism = randomized(build("location", {}, **{**ARGUMENTS, "max_source_length": longest}))
    actual = scores_of(mechanism)
    (weights,) = mechanism.get_weights()
    for row, length in enumerate(LENGTHS):
        used = min(length, longest)
        expected = softmax(QUERIES[row] @ weights[:, :used])
        np.testing.assert_allclose(actual[row, :, :used], expected, rtol=1e-4, atol=1e-6)
        assert np.all(actual[row, :, used:] == 0)


@pytest.mark.parametrize(
    "options", [{}, {"projection": 3}, {"gated": True}, {"normalize": "none"}, {"projection": 2, "gated": True}]
)
def test_linear_attention_is_the_sum_over_the_source(options):
    mechanism = randomized(build("linear", options, **ARGUMENTS))
    contexts, weights = mechanism(QUERIES, STATES, value_mask=MASK, return_attention_scores=True)
    for row, length in enumerate(LENGTHS):
        features = STATES[row, :length]
        if mechanism.projection_layer is not None:
            features = features @ mechanism.projection_layer.get_weights()[0]
        if mechanism.gate_layer is not None:
            kernel, bias = mechanism.gate_layer.get_weights()
            features = features * sigmoid(features @ kernel + bias)
        projected = QUERIES[row] @ mechanism.query_layer.get_weights()[0]
        expected = projected @ features.T / (1 if options.get("normalize") == "none" else length)
        np.testing.assert_allclose(contexts[row], expected @ features, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(weights[row, :, :length], expected, rtol=1e-3, atol=1e-4)
        assert np.all(weights[row, :, length:] == 0)


def test_linear_attention_takes_more_positions_than_float16_can_count():
    mechanism = build("linear", {}, dtype="mixed_float16", **ARGUMENTS)
    value = np.ones((1, 70_000, 2), np.float16)
    assert np.abs(mechanism(np.ones((1, 1, 2)), value)).max() > 1e-3


def test_the_compiled_gradient_of_a_loop_over_steps_copies_no_outputs_of_all_steps():
    """Why a loop's outputs are lists: XLA copies an array of a loop whose gradient both reads and writes it."""

    @tf.function(jit_compile=True)
    def gradient(x):
        def step(time, inputs, power):
            return [power[:, None]], power * x

        with tf.GradientTape() as tape:
            tape.watch(x)
            (powers,) = run_loop(step, x, tf.zeros([1, 5]), num_outputs=1, dtype=x.dtype)  # x, x^2, ... [1, 5, F]
            loss = tf.reduce_sum(tf.sin(powers))
        return tape.gradient(loss, x)

    text = gradient.experimental_get_compiler_ir(tf.zeros([1, 11]))(stage="optimized_hlo")
    in_loops = text.partition("ENTRY")[0].splitlines()
    copies = [line for line in in_loops if " copy(" in line and "f32[5,1,11]" in line.split("copy(")[0]]
    assert copies == []
