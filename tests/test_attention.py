"""Every equation of the paper against a computation in NumPy that shares no code with the layers."""

import itertools
import runpy
import sys

import numpy as np
import pytest
import tensorflow as tf

from memattn import attention, config
from memattn.attention import registry
from memattn.attention.memory import position_encodings
from memattn.errors import ConfigError

B, S, D, Q, U = 3, 7, 6, 4, 5
LENGTHS = np.array([7, 4, 1])


@pytest.fixture
def states():
    return np.random.default_rng(0).normal(size=(B, S, D)).astype(np.float32)


@pytest.fixture
def queries():
    return np.random.default_rng(1).normal(size=(B, Q, U)).astype(np.float32)


def mask():
    return np.arange(S)[None] < LENGTHS[:, None]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


SCORING = {"softmax": softmax, "sigmoid": sigmoid}


def read(mechanism, states, queries):
    """Scores, contexts and alignments of a mechanism, as arrays."""
    memory = mechanism.memorize(tf.constant(states), tf.constant(mask()))
    state = mechanism.initial_state(memory, Q)
    scores, _ = mechanism.score(tf.constant(queries), memory, state)
    contexts = tf.matmul(scores, memory["values"])
    return scores.numpy(), contexts.numpy(), mechanism.alignments(memory, scores).numpy()


def renormalized(k, s, length, num_slots, longest, renormalize):
    """Entry (k, s), both from 1, of the position encodings of one source: Eq. 10 and the text below it."""

    def entry(k, s):
        s = min(s, longest)
        return (1 - k / num_slots) * (1 - s / longest) + (k / num_slots) * (s / longest)

    total = sum(entry(k, other) for other in range(1, length + 1))
    return entry(k, s) * {"none": 1, "sum": 1 / total, "mean": length / total}[renormalize]


@pytest.mark.parametrize("num_slots", [1, 3, 8])
@pytest.mark.parametrize("encoder_scoring, decoder_scoring", list(itertools.product(SCORING, SCORING)))
@pytest.mark.parametrize("renormalize", [None, "sum", "mean", "none"])
def test_memory_attention_is_equations_4_to_10(
    states, queries, num_slots, encoder_scoring, decoder_scoring, renormalize
):
    longest = 5  # shorter than the longest source here: what lies past it counts as the last position
    mechanism = attention.MemoryAttention(
        num_slots=num_slots,
        encoder_scoring=encoder_scoring,
        decoder_scoring=decoder_scoring,
        position_encoding=renormalize is not None,
        renormalize=renormalize or "sum",
        max_source_length=longest,
    )
    scores, contexts, alignments = read(mechanism, states, queries)
    w_alpha = mechanism.encoder_scores.kernel.numpy()
    w_beta = mechanism.decoder_scores.kernel.numpy()
    for b in range(B):
        memory, alpha = np.zeros((num_slots, D)), np.zeros((S, num_slots))
        for t in range(LENGTHS[b]):
            logits = states[b, t] @ w_alpha
            if renormalize is not None:
                logits = logits * [
                    renormalized(k, t + 1, LENGTHS[b], num_slots, longest, renormalize) for k in range(1, num_slots + 1)
                ]  # Eq. 9
            alpha[t] = SCORING[encoder_scoring](logits)  # Eq. 5
            memory += np.outer(alpha[t], states[b, t])  # Eq. 4
        for q in range(Q):
            beta = SCORING[decoder_scoring](queries[b, q] @ w_beta)  # Eq. 7
            scored = beta if num_slots <= S else alpha @ beta  # a short source is read by position
            np.testing.assert_allclose(scores[b, q], scored, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(contexts[b, q], beta @ memory, rtol=1e-4, atol=1e-5)  # Eq. 6
            np.testing.assert_allclose(alignments[b, q], alpha @ beta, rtol=1e-4, atol=1e-6)


def test_one_softmax_slot_is_the_sum_of_the_states(states, queries):
    _, contexts, _ = read(attention.MemoryAttention(num_slots=1), states, queries)
    for b in range(B):
        np.testing.assert_allclose(contexts[b], np.tile(states[b, : LENGTHS[b]].sum(0), (Q, 1)), rtol=1e-5, atol=1e-5)


def test_position_encodings_have_the_surface_of_figure_2():
    table = position_encodings(64, 50)
    assert table.shape == (50, 64)
    np.testing.assert_allclose(table[24, 31], 0.5, atol=1e-6)  # the stationary point, k/K = s/S = 1/2
    np.testing.assert_allclose(table[49], np.arange(1, 65) / 64, atol=1e-6)  # at the end, late slots weigh most
    np.testing.assert_allclose(table[:, 63], np.arange(1, 51) / 50, atol=1e-6)
    assert table[0, 0] > 0.95
    assert (np.diff(table[:, 0]) < 0).all()


def content_attention(energies, states):
    """Eqs. 1 and 2 for energies [B, Q, S]."""
    scores = np.zeros((B, Q, S))
    for b in range(B):
        scores[b, :, : LENGTHS[b]] = softmax(energies[b, :, : LENGTHS[b]])
    return scores, np.einsum("bqs,bsd->bqd", scores, states)


@pytest.mark.parametrize("cache_keys", [True, False])
def test_bahdanau(states, queries, cache_keys):
    mechanism = attention.BahdanauAttention(units=9, cache_keys=cache_keys)
    read(mechanism, states, queries)
    mechanism.query_layer.bias.assign(np.random.default_rng(2).normal(size=9))
    scores, contexts, alignments = read(mechanism, states, queries)
    keys = states @ mechanism.key_layer.kernel.numpy()
    projected = queries @ mechanism.query_layer.kernel.numpy() + mechanism.query_layer.bias.numpy()
    v = tf.convert_to_tensor(mechanism.v).numpy()
    energies = np.array(
        [[[v @ np.tanh(projected[b, q] + keys[b, s]) for s in range(S)] for q in range(Q)] for b in range(B)]
    )
    expected_scores, expected_contexts = content_attention(energies, states)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(contexts, expected_contexts, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(alignments, scores)


def test_luong(states, queries):
    mechanism = attention.LuongAttention(units=U)
    scores, contexts, _ = read(mechanism, states, queries)
    energies = np.einsum("bqu,du,bsd->bqs", queries, mechanism.key_layer.kernel.numpy(), states)
    expected_scores, expected_contexts = content_attention(energies, states)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(contexts, expected_contexts, rtol=1e-4, atol=1e-5)


def test_luong_dot(states):
    queries = np.random.default_rng(1).normal(size=(B, Q, D)).astype(np.float32)
    scores, contexts, _ = read(attention.LuongDotAttention(), states, queries)
    expected_scores, expected_contexts = content_attention(np.einsum("bqd,bsd->bqs", queries, states), states)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(contexts, expected_contexts, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("scoring", "normalize"), [("softmax", "time"), ("softmax_time", "none")])
def test_long_sources_in_few_bits(scoring, normalize):
    layer = attention.MemoryAttention(
        num_slots=1, encoder_scoring=scoring, encoder_normalize=normalize, dtype="mixed_float16"
    )
    states = tf.ones([1, 10_000, 2], tf.float16)
    rows = layer.memorize(states, tf.ones([1, 10_000], tf.bool))["values"]
    np.testing.assert_allclose(rows, np.ones([1, 1, 2]), rtol=0.01)


@pytest.mark.parametrize("num_slots", [1, 3, 8])
@pytest.mark.parametrize("encoder_scoring", [*SCORING, "softmax_time"])
@pytest.mark.parametrize("encoder_normalize", ["none", "time"])
@pytest.mark.parametrize("reading", ["address", "content", "additive"])
def test_rows_over_time_and_ways_of_reading(states, queries, num_slots, encoder_scoring, encoder_normalize, reading):
    mechanism = attention.MemoryAttention(
        num_slots=num_slots,
        encoder_scoring=encoder_scoring,
        encoder_normalize=encoder_normalize,
        vote_scale=2.5,
        read=reading,
        read_units=7,
        units=U,
    )
    read(mechanism, states, queries)
    if reading == "additive":
        mechanism.query_layer.bias.assign(np.random.default_rng(2).normal(size=7))
    _, contexts, alignments = read(mechanism, states, queries)
    w_alpha = mechanism.encoder_scores.kernel.numpy()
    for b in range(B):
        real = states[b, : LENGTHS[b]].astype(np.float64)
        logits = real @ w_alpha  # [S, K]
        alpha = softmax(logits.T).T if encoder_scoring == "softmax_time" else SCORING[encoder_scoring](logits)
        if encoder_normalize == "time":
            alpha = alpha / alpha.sum(0)
        alpha = 2.5 * alpha
        memory = alpha.T @ real  # [K, D]
        for q in range(Q):
            if reading == "address":
                beta = softmax(queries[b, q] @ mechanism.decoder_scores.kernel.numpy())
            elif reading == "content":
                beta = softmax(memory @ mechanism.key_layer.kernel.numpy() @ queries[b, q] / np.sqrt(U))
            else:
                query = queries[b, q] @ mechanism.query_layer.kernel.numpy() + mechanism.query_layer.bias.numpy()
                v = tf.convert_to_tensor(mechanism.v).numpy()
                beta = softmax(np.tanh(query + memory @ mechanism.key_layer.kernel.numpy()) @ v)
            np.testing.assert_allclose(contexts[b, q], beta @ memory, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(alignments[b, q, : LENGTHS[b]], alpha @ beta, rtol=1e-4, atol=1e-6)
            np.testing.assert_array_equal(alignments[b, q, LENGTHS[b] :], 0)


@pytest.mark.parametrize("num_slots", [1, 3, 8])
@pytest.mark.parametrize("encoder_scoring", [*SCORING, "softmax_time"])
def test_position_windows(states, queries, num_slots, encoder_scoring):
    mechanism = attention.MemoryAttention(num_slots=num_slots, encoder_scoring=encoder_scoring, position_windows=True)
    _, contexts, _ = read(mechanism, states, queries)
    for b, length in enumerate(LENGTHS):
        logits = states[b, :length].astype(np.float64) @ mechanism.encoder_scores.kernel.numpy()
        for k in range(num_slots):
            middle, deviation = (k + 0.5) * length / num_slots, max(length / num_slots, 1) / 4
            for s in range(length):
                logits[s, k] += max(-((s + 0.5 - middle) ** 2) / (2 * deviation**2), -8)
        alpha = softmax(logits.T).T if encoder_scoring == "softmax_time" else SCORING[encoder_scoring](logits)
        beta = softmax(queries[b] @ mechanism.decoder_scores.kernel.numpy())  # [Q, K]
        np.testing.assert_allclose(contexts[b], beta @ alpha.T @ states[b, :length], rtol=1e-4, atol=1e-5)


def test_windows_lie_on_the_real_positions():
    mechanism = attention.MemoryAttention(num_slots=4, position_windows=True)
    query, value = tf.random.stateless_normal([1, 2, U], [1, 2]), tf.random.stateless_normal([1, 5, D], [3, 4])
    padding, real = tf.zeros([1, 3, D]), tf.ones([1, 5], tf.bool)
    plain = mechanism(query, value)
    for before, after in ((3, 0), (0, 3)):
        padded = tf.concat([padding[:, :before], value, padding[:, :after]], 1)
        mask = tf.pad(real, [[0, 0], [before, after]])
        np.testing.assert_allclose(mechanism(query, padded, value_mask=mask), plain, rtol=1e-5, atol=1e-6)


def test_reading_by_content_does_not_overflow_in_float16():
    mechanism = attention.MemoryAttention(num_slots=2, read="content", units=512, dtype="mixed_float16")
    mechanism.build((1, 1, 512), (1, 200, 512))
    mechanism.encoder_scores.kernel.assign(tf.zeros([512, 2]))
    mechanism.key_layer.kernel.assign(tf.fill([512, 512], 0.02))
    memory = mechanism.memorize(tf.fill([1, 200, 512], tf.constant(0.9, tf.float16)), tf.ones([1, 200], tf.bool))
    scores, _ = mechanism.score(tf.ones([1, 1, 512], tf.float16), memory)
    np.testing.assert_allclose(scores, [[[0.5, 0.5]]], atol=1e-2)


def test_windows_of_a_source_twice_as_long_hold_two_positions_each():
    mechanism = attention.MemoryAttention(num_slots=8, encoder_scoring="softmax_time", position_windows=True)
    states, mask = tf.random.stateless_normal([1, 16, D], [1, 2]), tf.ones([1, 16], tf.bool)
    mechanism.build((1, 1, U), (1, 16, D))
    mechanism.encoder_scores.kernel.assign(tf.zeros_like(mechanism.encoder_scores.kernel))
    alpha = mechanism.memorize(states, mask)["alpha"][0]  # [S, K]
    np.testing.assert_array_equal(np.argsort(alpha, 0)[-2:].T // 2, np.repeat(np.arange(8)[:, None], 2, 1))
    np.testing.assert_array_less(0.7, np.sum(np.sort(alpha, 0)[-2:], 0))


def test_luong_dot_says_which_widths_differ(states, queries):
    with pytest.raises(ValueError, match="luong_dot: the queries are 5 wide and the values 6; .*encoder_units"):
        read(attention.LuongDotAttention(), states, queries)


@pytest.mark.parametrize(
    ("name", "options"),
    [("luong", {}), ("local_m", {}), ("local_p", {}), ("memory", {"num_slots": 3, "read": "content"})],
)
def test_units_are_the_width_of_the_queries(name, options):
    layer = attention.MECHANISMS[name](units=5, **options)
    with pytest.raises(ValueError, match="units: 5, but the queries are 4 wide; they must be equal"):
        layer(tf.zeros([1, 2, 4]), tf.zeros([1, 3, 6]))


def test_no_attention_reads_nothing(states, queries):
    scores, contexts, alignments = read(attention.NoAttention(), states, queries)
    assert scores.shape == (B, Q, 0)
    assert contexts.shape == (B, Q, 0)
    np.testing.assert_array_equal(alignments, np.zeros((B, Q, S)))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_slots": "8"}, "num_slots: must be a whole number of at least 1, not '8'"),
        ({"num_slots": 0}, "num_slots: must be a whole number of at least 1, not 0"),
        ({"num_slots": True}, "num_slots: must be a whole number of at least 1, not True"),
        ({"encoder_scoring": "tanh"}, "encoder_scoring: 'tanh' is none of softmax, sigmoid, softmax_time"),
        ({"decoder_scoring": "none"}, "decoder_scoring: 'none' is none of softmax, sigmoid"),
        ({"encoder_normalize": "slots"}, "encoder_normalize: 'slots' is none of none, time"),
        ({"read": "key"}, "read: 'key' is none of address, content, additive"),
        ({"vote_scale": 0.0}, "vote_scale: must be a number above 0, not 0.0"),
        ({"vote_scale": float("nan")}, "vote_scale: must be a number above 0, not nan"),
        ({"read": "additive", "read_units": 0}, "read_units: must be a whole number of at least 1, not 0"),
        ({"read": "content"}, r"units \(to read by content\): must be a whole number of at least 1, not None"),
        ({"renormalize": "max"}, "renormalize: 'max' is none of sum, mean, none"),
        (
            {"position_encoding": True},
            r"max_source_length \(for position_encoding\): must be a whole number of at least 1",
        ),
    ],
)
def test_memory_attention_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        attention.MemoryAttention(**options)


def test_no_source_at_all_gives_finite_zeros():
    states = np.ones((1, 2, D), np.float32)
    for mechanism in (attention.BahdanauAttention(units=U), attention.MemoryAttention(num_slots=2)):
        memory = mechanism.memorize(tf.constant(states), tf.constant([[False, False]]))
        scores, _ = mechanism.score(tf.ones([1, 1, U]), memory, ())
        np.testing.assert_array_equal(tf.matmul(scores, memory["values"]).numpy(), np.zeros((1, 1, D)))


def test_a_tensorflow_addons_that_does_not_fit_harms_its_own_mechanisms_only(tmp_path, monkeypatch):
    (tmp_path / "tensorflow_addons.py").write_text("raise AttributeError('no engine\\nin keras')")
    (tmp_path / "config.yaml").write_text("data: {copy: {}}\n")
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("tensorflow_addons", "memattn.attention.addons"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    mechanisms = runpy.run_path(registry.__file__)["MECHANISMS"]  # as a first import makes it
    monkeypatch.setattr("memattn.config.config.MECHANISMS", mechanisms)
    path = str(tmp_path / "config.yaml")
    assert config.load(path, []).model.attention["name"] == "memory"
    with pytest.raises(ConfigError, match=r"name: tfa_luong: tensorflow-addons cannot .*keras.*; it needs"):
        config.load(path, ["model.attention.name=tfa_luong"])


def test_the_registry_is_a_mapping_of_names_to_classes():
    names = [name for name in attention.MECHANISMS if not name.startswith("tfa_")]
    assert attention.MECHANISMS.get("memory") is attention.MECHANISMS["memory"] is attention.MemoryAttention
    assert attention.MECHANISMS.get("nothing") is None
    assert "memory" in attention.MECHANISMS
    if len(names) == len(attention.MECHANISMS):  # the extra `addons` may be there and not fit
        assert dict(attention.MECHANISMS.items()) == {name: attention.MECHANISMS[name] for name in names}
        assert all(issubclass(one, attention.AttentionMechanism) for one in attention.MECHANISMS.values())


@pytest.mark.parametrize("name", ["nothing", 3, None, ["memory"], {"memory": 1}])
def test_a_name_of_any_type_is_refused(name):
    assert name not in attention.MECHANISMS
    with pytest.raises(KeyError):
        attention.MECHANISMS[name]
    with pytest.raises(ValueError, match="attention: .* is none of none, bahdanau"):
        attention.build(name, {})


@pytest.mark.parametrize("installed", [False, True])
def test_mechanisms_of_tensorflow_addons_are_listed_where_it_is_installed(installed, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if installed else None)
    assert ("tfa_luong" in runpy.run_path(registry.__file__)["MECHANISMS"]) == installed
