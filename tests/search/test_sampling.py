"""Samples have the probabilities of the config, whatever the batch."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.models import make_model, padded

from memattn import config as configs
from memattn.config import DecodingConfig, SampleConfig
from memattn.data.vocabulary import EOS
from memattn.errors import ConfigError
from memattn.search.sampling import draw, sample
from memattn.search.searcher import Scorer, Searcher

LOGITS = np.log([0.05, 0.4, 0.1, 0.25, 0.2])


def frequencies(temperature=1.0, top_k=None, top_p=None, draws=2_000):
    """The frequency of each token, with random numbers at equal distances."""
    uniforms = ((np.arange(draws) + 0.5) / draws).astype(np.float32)[None]
    logits = tf.constant(np.tile(LOGITS.astype(np.float32), [1, draws, 1]))
    tokens = draw(logits, tf.constant(uniforms), temperature=temperature, top_k=top_k, top_p=top_p)
    return np.bincount(tokens.numpy()[0], minlength=5) / draws


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, [0.05, 0.4, 0.1, 0.25, 0.2]),
        ({"top_k": 1}, [0, 1, 0, 0, 0]),
        ({"top_k": 2}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),
        ({"top_k": 99}, [0.05, 0.4, 0.1, 0.25, 0.2]),
        ({"top_p": 0.39}, [0, 1, 0, 0, 0]),
        ({"top_p": 0.41}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),  # those before the second have less than 0.41
        ({"top_p": 0.99}, [0.05, 0.4, 0.1, 0.25, 0.2]),
        ({"top_k": 3, "top_p": 0.6}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),  # 0.65 of 0.85: p is of what k leaves
        ({"temperature": 0.5}, np.square([0.05, 0.4, 0.1, 0.25, 0.2]) / 0.275),
    ],
)
def test_tokens_are_drawn_with_their_probabilities(how, expected):
    np.testing.assert_allclose(frequencies(**how), expected, atol=1e-3)


@pytest.mark.parametrize("how", [{}, {"top_k": 3}, {"top_p": 0.7}])
def test_no_random_number_draws_a_token_of_probability_0(how):
    logits = tf.constant([[[-np.inf, 0.0, -np.inf, 1.0, -np.inf]]] * 2, tf.float32)
    uniforms = tf.constant([[0.0], [np.nextafter(np.float32(1), np.float32(0))]])
    tokens = draw(logits, uniforms, **{"temperature": 1.0, "top_k": None, "top_p": None, **how})
    assert set(tokens.numpy().ravel()) <= {1, 3}


@pytest.mark.parametrize("jit_compile", [False, True])
def test_samples_end_at_their_end_or_limit_and_are_sorted(jit_compile):
    def step(tokens, state):
        del tokens
        return tf.tile(tf.math.log([[[0.1, 0.2, 0.7]]]), [2, 64, 1]), state + 1

    @tf.function(jit_compile=jit_compile)
    def run(uniforms):
        state = tf.zeros([2, 64], tf.int32)
        return sample(step, state, uniforms=uniforms, max_lengths=tf.constant([6, 0]), start=0, end=1)

    found = run(tf.random.stateless_uniform([6, 2, 64], [1, 2]))
    tokens, lengths, scores = (values.numpy() for values in found)
    assert tokens.shape == (2, 64, 6)
    assert (lengths[1] == 0).all()
    assert (np.diff(scores[0]) <= 0).all()
    assert len(set(lengths[0])) > 3
    log = np.log([0.1, 0.2, 0.7])
    for row, length, score in zip(tokens[0], lengths[0], scores[0], strict=True):
        assert (row[length:] == 1).all()
        assert 1 not in row[:length]
        ended = log[1] if length < 6 else 0.0  # at its limit a hypothesis has no end
        np.testing.assert_allclose(score, log[row[:length]].sum() + ended, rtol=1e-5)


def searcher(model, **how):
    sampling = {key: how.pop(key) for key in ("seed", "top_k", "temperature") if key in how}
    config = DecodingConfig(
        **{"n_best": 4, "beam_size": 2, "jit_compile": False, **how}, sample=SampleConfig(**sampling)
    )
    return Searcher(model, config)


def test_a_sentence_has_the_same_samples_in_any_batch():
    model = make_model("memory", {"num_slots": 2})
    one, other = [4, 5, 6, EOS], [7, 8, 9, 4, 5, EOS]
    draws = searcher(model)
    together = draws(padded([one, other]).numpy(), np.array([11, 12]))
    for number, source in ((11, one), (12, other)):
        alone = draws(padded([source], 9).numpy(), np.array([number]))
        row, longest = number - 11, int(alone.lengths.max())
        np.testing.assert_array_equal(alone.lengths[0], together.lengths[row])
        np.testing.assert_array_equal(alone.tokens[0, :, :longest], together.tokens[row, :, :longest])
        np.testing.assert_allclose(alone.scores[0], together.scores[row], rtol=1e-4)
    again = draws(padded([one, other]).numpy(), np.array([13, 12]))
    assert (again.tokens[1] == together.tokens[1]).all()
    assert (again.tokens[0] != together.tokens[0]).any()
    assert (searcher(model, seed=2)(padded([one, other]).numpy()).tokens != together.tokens).any()


def test_scores_are_the_models_own_whatever_the_temperature():
    model = make_model("bahdanau", {})
    model.output_layer.bias.assign(tf.concat([[-1e9], tf.zeros(10)], 0))  # no PAD, which scoring passes over
    source = [4, 5, 6, EOS]
    found = searcher(model, temperature=3.0, top_k=5)(padded([source]).numpy())
    scorer = Scorer(model)
    for tokens, length, score in zip(found.tokens[0], found.lengths[0], found.scores[0], strict=True):
        if length < found.tokens.shape[2]:
            target = padded([[*tokens[:length].tolist(), EOS]]).numpy()
            np.testing.assert_allclose(score, scorer(padded([source]).numpy(), target)[0], rtol=1e-4)
    assert len({tuple(tokens) for tokens in found.tokens[0]}) > 1


def test_a_temperature_near_0_is_greedy():
    model = make_model("memory", {"num_slots": 2})
    source = padded([[4, 5, 6, EOS], [7, EOS]]).numpy()
    greedy = Searcher(model, DecodingConfig(beam_size=1, jit_compile=False))(source)
    np.testing.assert_array_equal(searcher(model, temperature=1e-4, n_best=1)(source).tokens, greedy.tokens)


def test_the_config_samples_as_many_as_are_asked_for():
    def load(**decoding):
        return configs.checked({"data": {"copy": {}}, "decoding": decoding}, configs.Origin("test")).decoding

    assert load(sample={}, n_best=20, beam_size=2).sample == SampleConfig()
    assert load(sample=None).sample is None
    with pytest.raises(ConfigError, match=r"decoding.sample.top_p: must be below 1"):
        load(sample={"top_p": 1.5})
    with pytest.raises(ConfigError, match="decoding.coverage_penalty: "):
        load(sample={}, coverage_penalty=0.2)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"temperature": 0.0}, "temperature: must be at least 1e-6"),
        ({"temperature": float("nan")}, "temperature: must be at least 1e-6"),
        ({"temperature": 1e40}, "temperature: must be at least 1e-6 and below 1e30"),
        ({"top_k": 0}, "top_k: must be an int of at least 1"),
        ({"top_k": 1.5}, "top_k: must be an int of at least 1"),
        ({"top_p": 0.0}, "top_p: must be above 0"),
        ({"top_p": 2.0}, "top_p: must be above 0 and at most 1"),
        (
            {"uniforms": tf.zeros([2, 1])},
            r"uniforms: must be \[steps, B, n\], neither steps nor n 0, not of shape \(2, 1\)",
        ),
    ],
)
def test_values_out_of_range_are_refused(wrong, problem):
    with pytest.raises(ValueError, match=problem):
        sample(lambda *_: None, (), **{"uniforms": tf.zeros([2, 1, 1]), **wrong}, max_lengths=[2], start=1, end=2)


def drawn(table, *, batch=1, samples=4, steps=6, max_lengths=None, jit_compile=False, **how):
    """Samples of a table of logits [V, V], from each token to the next; start 0, end 1."""

    @tf.function(jit_compile=jit_compile)
    def run(uniforms):
        step = lambda tokens, state: (tf.gather(tf.constant(table, tf.float32), tokens), state)  # noqa: E731
        limits = [steps] * batch if max_lengths is None else max_lengths
        return sample(step, tf.zeros([batch, samples]), uniforms=uniforms, max_lengths=limits, start=0, end=1, **how)

    return [values.numpy() for values in run(tf.random.stateless_uniform([steps, batch, samples], [1, 2]))]


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("how", [{}, {"top_k": 2}, {"top_p": 0.9}])
@pytest.mark.parametrize("dead", [-np.inf, np.nan])
def test_a_dead_end_leaves_the_other_samples_alone(dead, how, jit_compile):
    table = np.full([4, 4], -np.inf)
    table[0, 2:] = 0.0  # then 2, which ends, or 3, which cannot go on
    table[2, 1], table[3, :] = 0.0, dead
    tokens, lengths, scores = drawn(table, samples=16, jit_compile=jit_compile, **how)
    ended = np.isfinite(scores[0])
    assert 0 < ended.sum() < 16
    np.testing.assert_allclose(scores[0, ended], np.log(0.5), rtol=1e-5)
    assert (tokens[0, ended, 0] == 2).all()
    assert not np.isnan(scores).any()
    assert (lengths[0] == ended).all()
    assert (tokens[0, ~ended] == 1).all()
    assert (np.argsort(~ended, kind="stable") == np.arange(16)).all()  # best first


def test_samples_of_a_batch_of_unknown_size_may_need_no_step():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def run(limits):
        uniforms = tf.zeros([3, tf.shape(limits)[0], 2])
        step = lambda tokens, state: (tf.zeros([tf.shape(tokens)[0], 2, 4]), state)  # noqa: E731
        return sample(step, (), uniforms=uniforms, max_lengths=limits, start=0, end=1)

    for limits in ([0, 0], []):
        tokens, lengths, scores = run(tf.constant(limits, tf.int32))
        assert (tokens.shape, lengths.shape, scores.shape) == ((len(limits), 2, 3), *[(len(limits), 2)] * 2)
        assert (tokens.numpy() == 1).all()


def test_limits_and_random_numbers_may_be_lists():
    step = lambda tokens, state: (tf.zeros([1, 1, 4]) + [0.0, -9e9, 0.0, 0.0], state)  # noqa: E731
    found = sample(step, (), uniforms=[[[0.1]], [[0.5]], [[0.9]]], max_lengths=[3], start=0, end=1)
    assert found.tokens.numpy().tolist() == [[[0, 2, 3]]]


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("ngram", [1, 2])
def test_no_sample_repeats_an_ngram(ngram, jit_compile):
    table = np.random.default_rng(4).normal(size=[6, 6])
    table[:, 1] = -3.0
    options = {"samples": 32, "steps": 12, "jit_compile": jit_compile}
    free, tokens = (drawn(table, no_repeat_ngram_size=size, **options)[0][0] for size in (0, ngram))
    lengths, scores = (values[0] for values in drawn(table, no_repeat_ngram_size=ngram, **options)[1:])

    def repeating(rows):
        ngrams = [[tuple(row[i : i + ngram]) for i in range(13 - ngram) if 1 not in row[: i + ngram]] for row in rows]
        return sum(len(set(one)) < len(one) for one in ngrams)

    assert repeating(free.tolist()) > 0
    assert repeating(tokens.tolist()) == 0
    log_probs = table - np.log(np.exp(table).sum(1, keepdims=True))
    for row, length, score in zip(tokens, lengths, scores, strict=True):
        path = [0, *row[: min(length + 1, 12)]]
        np.testing.assert_allclose(score, log_probs[path[:-1], path[1:]].sum(), rtol=1e-4)
