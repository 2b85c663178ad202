"""Samples are drawn with the probabilities that the config asks for, and do not depend on the batch."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.marks import slow
from helpers.models import make_model, padded

from memattn.config import DecodingConfig, SampleConfig
from memattn.data.vocabulary import EOS
from memattn.search.sampling import draw, sample
from memattn.search.searcher import Searcher
from memattn.serving.scorer import Scorer

LOGITS = np.log([0.05, 0.4, 0.1, 0.25, 0.2])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.05, 0.4, 0.1, 0.25, 0.2]),
        ({"top_k": 1}, [0, 1, 0, 0, 0]),
        ({"top_k": 2}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),
        ({"top_p": 0.41}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),  # the tokens before the second have less than 0.41
        ({"top_k": 3, "top_p": 0.6}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),  # top_p counts from what top_k keeps
        ({"temperature": 0.5}, np.square([0.05, 0.4, 0.1, 0.25, 0.2]) / 0.275),
    ],
)
def test_tokens_are_drawn_with_their_probabilities(options, expected):
    """The random numbers of 2,000 draws are evenly spaced."""
    uniforms = tf.constant(((np.arange(2_000) + 0.5) / 2_000).astype(np.float32)[None])
    logits = tf.constant(np.tile(LOGITS.astype(np.float32), [1, 2_000, 1]))
    tokens = draw(logits, uniforms, **{"temperature": 1.0, "top_k": None, "top_p": None, **options})
    np.testing.assert_allclose(np.bincount(tokens.numpy()[0], minlength=5) / 2_000, expected, atol=1e-3)


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.7}])
def test_tokens_of_probability_0_are_never_drawn(options):
    logits = tf.constant([[[-np.inf, 0.0, -np.inf, 1.0, -np.inf]]] * 2, tf.float32)
    uniforms = tf.constant([[0.0], [np.nextafter(np.float32(1), np.float32(0))]])
    tokens = draw(logits, uniforms, **{"temperature": 1.0, "top_k": None, "top_p": None, **options})
    assert set(tokens.numpy().ravel()) <= {1, 3}


@pytest.mark.parametrize("jit_compile", [False, slow(True)])
def test_rounded_sums_over_a_large_vocabulary_draw_no_token_of_probability_0(jit_compile):
    """The random numbers lie at the boundaries between tokens."""
    random = np.random.default_rng(0)
    logits = np.where(random.random(4_000) < 0.03, random.normal(scale=2, size=4_000), -np.inf).astype(np.float32)
    cumulative = tf.function(tf.cumsum, jit_compile=jit_compile)(tf.nn.softmax(logits)[None, None], -1).numpy()
    uniforms = np.unique(np.minimum(cumulative, np.nextafter(np.float32(1), np.float32(0))))
    options = {"temperature": 1.0, "top_k": None, "top_p": None}
    run = tf.function(lambda logits, uniforms: draw(logits, uniforms, **options), jit_compile=jit_compile)
    tokens = run(tf.constant(np.tile(logits, [1, len(uniforms), 1])), tf.constant(uniforms[None])).numpy()
    assert np.isfinite(logits[tokens]).all()


def drawn(table, *, samples, max_lengths=(6,), jit_compile=False, **options):
    """Samples with logits that depend on the last token alone, a row of `table` [V, V]; 0 starts, 1 ends."""

    @tf.function(jit_compile=jit_compile)
    def run(uniforms):
        step = lambda tokens, state: (tf.gather(tf.constant(table, tf.float32), tokens), state)  # noqa: E731
        state = tf.zeros([len(max_lengths), samples])
        return sample(step, state, uniforms=uniforms, max_lengths=max_lengths, start=0, end=1, **options)

    uniforms = tf.random.stateless_uniform([max(max_lengths), len(max_lengths), samples], [1, 2])
    return [values.numpy() for values in run(uniforms)]


@pytest.mark.parametrize(("jit_compile", "penalty"), [(False, 1.0), slow(True, 0.0)])
def test_samples_end_at_the_end_of_sentence_or_maximum_length_and_are_sorted(jit_compile, penalty):
    log_probs = np.log([0.1, 0.2, 0.7])
    options = {"length_penalty_weight": penalty, "jit_compile": jit_compile}
    tokens, lengths, scores = drawn(np.tile(log_probs, [3, 1]), samples=64, max_lengths=[6, 0], **options)
    assert tokens.shape == (2, 64, 6)
    assert (lengths[1] == 0).all()
    assert (np.diff(scores[0]) <= 0).all()
    assert len(set(lengths[0])) > 3
    for row, length, score in zip(tokens[0], lengths[0], scores[0], strict=True):
        assert (row[length:] == 1).all()
        assert 1 not in row[:length]
        end = log_probs[1] if length < 6 else 0.0  # a hypothesis of the maximum length has no end of sentence
        expected = (log_probs[row[:length]].sum() + end) / ((5 + length) / 6) ** penalty
        np.testing.assert_allclose(score, expected, rtol=1e-5)


def test_random_numbers_and_ids_may_have_64_bits():
    def step(tokens, state):
        return tf.gather(tf.constant(np.log([[0.1, 0.2, 0.7]] * 3), tf.float32), tokens), state

    uniforms, limits = np.random.default_rng(1).random([4, 1, 9]), {"max_lengths": [4]}
    expected = sample(step, (), uniforms=uniforms.astype(np.float32), start=0, end=1, **limits)
    ids = {name: tf.constant(value, tf.int64) for name, value in {"start": 0, "end": 1}.items()}
    for actual, values in zip(sample(step, (), uniforms=uniforms, **ids, **limits), expected, strict=True):
        np.testing.assert_array_equal(actual, values)


def searcher(model, **options):
    sampling = {key: options.pop(key) for key in ("seed", "top_k", "top_p", "temperature") if key in options}
    config = DecodingConfig(
        **{"n_best": 4, "beam_size": 2, "jit_compile": False, **options}, sample=SampleConfig(**sampling)
    )
    return Searcher(model, config)


def test_scores_are_log_probabilities_of_the_model_at_any_temperature():
    model = make_model("bahdanau", {})
    model.output_layer.bias.assign(tf.concat([[-1e9], tf.zeros(10)], 0))  # a Scorer skips PAD
    source = [4, 5, 6, EOS]
    samples = searcher(model, temperature=3.0, top_k=5, length_penalty=0.7)(padded([source]).numpy())
    scorer = Scorer(model)
    for tokens, length, score in zip(samples.tokens[0], samples.lengths[0], samples.scores[0], strict=True):
        if length < samples.tokens.shape[2]:
            target = padded([[*tokens[:length].tolist(), EOS]]).numpy()
            expected = scorer(padded([source]).numpy(), target)[0] / ((5 + length) / 6) ** 0.7
            np.testing.assert_allclose(score, expected, rtol=1e-4)
    assert len({tuple(tokens) for tokens in samples.tokens[0]}) > 1


@pytest.mark.parametrize("options", [{"top_k": 1}, slow({"temperature": 1e-4})], ids=str)
def test_sampling_the_most_probable_token_alone_is_greedy_search(options):
    model = make_model("memory", {"num_slots": 2})
    source = padded([[4, 5, 6, EOS], [7, EOS]]).numpy()
    greedy = Searcher(model, DecodingConfig(beam_size=1, jit_compile=False))(source)
    np.testing.assert_array_equal(searcher(model, **options, n_best=1)(source).tokens, greedy.tokens)


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"top_k": 0}, {"top_p": 2.0}])
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="temperature must be at least 1e-6, top_k at least 1, top_p above 0"):
        sample(lambda *_: None, (), uniforms=tf.zeros([2, 1, 1]), **wrong, max_lengths=[2], start=1, end=2)


@pytest.mark.parametrize(("options", "jit_compile"), [({}, False), slow({"top_k": 2, "top_p": 0.9}, True)])
@pytest.mark.parametrize("dead_logit", [-np.inf, np.nan])
def test_a_dead_end_leaves_the_other_samples_alone(dead_logit, options, jit_compile):
    table = np.full([4, 4], -np.inf)
    table[0, 2:] = 0.0  # the first token is 2 or 3
    table[2, 1] = 0.0  # after 2 comes the end
    table[3, :] = dead_logit  # after 3 comes nothing
    tokens, lengths, scores = drawn(table, samples=16, jit_compile=jit_compile, **options)
    ended = np.isfinite(scores[0])
    assert 0 < ended.sum() < 16
    np.testing.assert_allclose(scores[0, ended], np.log(0.5), rtol=1e-5)
    assert (tokens[0, ended, 0] == 2).all()
    assert not np.isnan(scores).any()
    assert (lengths[0] == ended).all()
    assert (tokens[0, ~ended] == 1).all()
    assert (np.argsort(~ended, kind="stable") == np.arange(16)).all()  # best first


@pytest.mark.parametrize(("ngram", "jit_compile"), [(1, False), slow(2, True)])
def test_no_sample_repeats_an_ngram(ngram, jit_compile):
    table = np.random.default_rng(4).normal(size=[6, 6])
    table[:, 1] = -3.0
    options = {"samples": 32, "max_lengths": [12], "jit_compile": jit_compile}
    unlimited = drawn(table, no_repeat_ngram_size=0, **options)[0][0]
    tokens, lengths, scores = (values[0] for values in drawn(table, no_repeat_ngram_size=ngram, **options))

    def has_repetition(row):
        ngrams = [tuple(row[i : i + ngram]) for i in range(13 - ngram) if 1 not in row[: i + ngram]]
        return len(set(ngrams)) < len(ngrams)

    assert any(map(has_repetition, unlimited.tolist()))
    assert not any(map(has_repetition, tokens.tolist()))
    log_probs = table - np.log(np.exp(table).sum(1, keepdims=True))
    for row, length, score in zip(tokens, lengths, scores, strict=True):
        path = [0, *row[: min(length + 1, 12)]]
        np.testing.assert_allclose(score, log_probs[path[:-1], path[1:]].sum(), rtol=1e-4)
