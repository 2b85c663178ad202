"""Beam search over a fake model equals a plain beam search."""

import math

import numpy as np
import pytest
import tensorflow as tf
from helpers.marks import slow

from memattn.search.beam_search import beam_search, coverage_penalty
from memattn.search.translation import Hypotheses

INF = float("inf")
without_and_with_xla = pytest.mark.parametrize("jit_compile", [False, slow(True)])

START, END, V = 1, 2, 5
CODES = 997  # states of the fake model
TABLE = np.random.default_rng(11).normal(scale=2.0, size=(CODES, V)).astype(np.float32)
# Weights of 4 source positions in each state.
ATTENTION = np.random.default_rng(12).dirichlet(np.full(4, 0.3), CODES).astype(np.float32)
REAL = np.array([True, True, True, False])  # the last source position is padding


def next_code(code, token):
    """The next state of the fake model, an int that depends on all tokens so far; takes ints, arrays and tensors."""
    return (code * 31 + token * 7 + 5) % CODES


def search(
    sources,
    max_lengths,
    *,
    beam_size,
    penalty=0.0,
    coverage=0.0,
    table=TABLE,
    follow=next_code,
    jit_compile=False,
    **options,
):
    """Searches with the fake model: a source is its first state; table[state] holds logits of the next token.

    follow(state, token) is the next state; `options` are those of `beam_search`.
    """
    options = {"n_best": beam_size, "max_steps": max(max_lengths), "length_penalty_weight": penalty, **options}
    if coverage:
        options["attended"] = lambda state: tf.gather(tf.constant(ATTENTION * REAL), state[0][:, :, 0])
        options["covered"] = tf.tile(tf.constant(1.0 - REAL, tf.float32)[None], [len(sources), 1])
        options["coverage_penalty_weight"] = coverage

    def step(tokens, state):
        (code,) = state
        code = follow(code, tokens[:, :, None])  # [B, k, 1]
        logits = tf.gather(tf.constant(table), code[:, :, 0])
        return tf.ensure_shape(logits, [None, beam_size, table.shape[1]]), (code,)

    @tf.function(jit_compile=jit_compile)
    def run(sources, max_lengths):
        state = (tf.tile(sources[:, None, None], [1, beam_size, 1]),)
        return beam_search(step, state, beam_size=beam_size, max_lengths=max_lengths, start=START, end=END, **options)

    hypotheses = run(tf.constant(sources, tf.int32), tf.constant(max_lengths, tf.int32))
    return Hypotheses(*(tensor.numpy() for tensor in hypotheses))


def hypotheses_of(results, row):
    """The hypotheses of the source in a row of the batch, as pairs of tokens and score."""
    return [
        (tuple(results.tokens[row, k, : results.lengths[row, k]].tolist()), results.scores[row, k])
        for k in range(results.scores.shape[1])
        if results.scores[row, k] > -np.inf
    ]


def log_probabilities(code):
    """Log-probabilities [V] of the next token in a state of the fake model."""
    logits = TABLE[code].astype(np.float64)
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def repeats(tokens, size):
    """Whether a sequence has the same `size` tokens in a row twice."""
    ngrams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return size > 0 and len(set(ngrams)) < len(ngrams)


def plain_beam_search(source, max_length, beam_size, penalty, coverage=0.0, ngram=0):
    """Beam search in plain Python, by the definition in the docstring of `beam_search`; returns pairs as hypotheses_of.

    No hypothesis has the same `ngram` tokens in a row twice.
    """

    def score(hypothesis):
        tokens, total, covered, *_ = hypothesis
        uncovered = sum(math.log(min(max(amount, 1e-6), 1.0)) for amount in covered[REAL])
        return total / ((5 + len(tokens)) / 6) ** penalty + coverage * uncovered

    # A hypothesis: tokens, log-probability, attention to each source position, state, last token.
    beam = [((), 0.0, np.zeros(4), source, START)]
    for _ in range(max_length):
        candidates = []
        for hypothesis in beam:
            tokens, total, covered, code, last = hypothesis
            if last == END:
                candidates.append(hypothesis)
                continue
            code = next_code(code, last)
            for token, log_probability in enumerate(log_probabilities(code)):
                longer = tokens if token == END else (*tokens, token)
                if repeats(longer, ngram):
                    continue
                after = covered + ATTENTION[code]
                candidates.append((longer, total + log_probability, after, code, token))
        candidates.sort(key=lambda candidate: -score(candidate))
        beam = candidates[:beam_size]
        if all(last == END for *_, last in beam):
            break
    return [(hypothesis[0], score(hypothesis)) for hypothesis in beam]


def assert_same(actual, expected):
    assert [tokens for tokens, _ in actual] == [tokens for tokens, _ in expected]
    np.testing.assert_allclose([score for _, score in actual], [score for _, score in expected], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("beam_size", "penalty", "coverage", "ngram", "jit_compile"),
    [
        (1, 0.0, 0.0, 0, False),
        (3, 0.0, 0.0, 0, False),
        (10, 1.0, 0.0, 0, False),
        (3, 0.6, 0.5, 0, True),
        (3, 0.6, 0.0, 2, False),
        slow(2, 1.0, 0.0, 0, False),
        slow(3, 0.6, 2.0, 0, False),
        slow(3, 0.6, 0.0, 1, False),
        slow(3, 0.6, 0.0, 3, True),
    ],
)
def test_a_search_equals_the_plain_beam_search(beam_size, penalty, coverage, ngram, jit_compile):
    """The coverage penalty, and the ban of repetitions, each change a hypothesis."""
    sources, max_lengths, changed = list(range(20, 32)), [9, 8, 12, 1] * 3, False
    options = {"beam_size": beam_size, "penalty": penalty, "coverage": coverage, "no_repeat_ngram_size": ngram}
    results = search(sources, max_lengths, jit_compile=jit_compile, **options)
    for row, (source, max_length) in enumerate(zip(sources, max_lengths, strict=True)):
        expected = plain_beam_search(source, max_length, beam_size, penalty, coverage, ngram)
        assert_same(hypotheses_of(results, row), expected)
        changed |= expected != plain_beam_search(source, max_length, beam_size, penalty)
    assert changed == bool(coverage or ngram)


@pytest.mark.parametrize(("n_best", "coverage", "penalty"), [(1, 0.0, 0.0), (1, 0.5, 2.0), slow(2, 0.0, 2.0)])
def test_the_n_best_are_the_first_of_the_whole_beam(n_best, coverage, penalty):
    sources, max_lengths = list(range(100, 140)), [8, 12, 5, 20] * 10
    options = {"beam_size": 5, "penalty": penalty, "coverage": coverage}
    full_beam, best = (search(sources, max_lengths, n_best=n, **options) for n in (5, n_best))
    for row in range(40):
        assert_same(hypotheses_of(best, row), hypotheses_of(full_beam, row)[:n_best])


@without_and_with_xla
def test_a_large_vocabulary_changes_nothing(jit_compile, monkeypatch):
    """With a large vocabulary, the search first selects the best tokens of each hypothesis; results are the same."""
    sources, max_lengths = list(range(20, 26)), [8, 7, 6] * 2
    options = {"beam_size": 3, "penalty": 1.0, "jit_compile": jit_compile}
    expected = search(sources, max_lengths, **options)
    monkeypatch.setattr("memattn.search.beam_search._LARGE_VOCABULARY", 1)
    results = search(sources, max_lengths, **options)
    for array, expected_array in zip(results, expected, strict=True):
        np.testing.assert_allclose(array, expected_array, rtol=1e-5)


def test_a_source_that_yields_nan_changes_no_other_source():
    table = TABLE.copy()
    table[next_code(50, START)] = np.nan
    results = search([50, 4], [5, 5], beam_size=3, table=table)
    assert not np.isfinite(results.scores[0]).any()
    assert_same(hypotheses_of(results, 1), plain_beam_search(4, 5, 3, 0.0))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"n_best": 3}, "n_best: must be at least 1 and at most beam_size = 2, not 3"),
        ({"length_penalty_weight": -1.0}, "weights and no_repeat_ngram_size must not be negative"),
        ({"max_steps": 0}, "max_steps must be at least 1"),
        ({"coverage_penalty_weight": 0.1}, "coverage_penalty_weight: needs attended and covered"),
    ],
)
def test_values_out_of_range_are_refused(wrong, problem):
    numbers = {"beam_size": 2, "max_lengths": tf.constant([4]), "max_steps": 4, "start": 1, "end": 2, **wrong}
    with pytest.raises(ValueError, match=problem):
        beam_search(lambda *_: None, (), **numbers)


def search_table(table, jit_compile=False, *, max_lengths=(5,), beam_size=3, **options):
    """Searches with logits that depend on the last token alone, a row of `table` [V, V]."""
    options = {"table": table, "follow": lambda _, token: token, "jit_compile": jit_compile, **options}
    return search([START] * len(max_lengths), max_lengths, beam_size=beam_size, **options)


def chain(vocabulary, *logits):
    """A table of logits in which a token may follow another only where `logits` lists (token before, token, logit)."""
    table = np.full([vocabulary, vocabulary], -INF, np.float32)
    for before, after, logit in logits:
        table[before, after] = logit
    return table


# At first, token 3 is more probable than 4; but no token can follow 3.
DEAD_END = [(START, 3, 1.0), (START, 4, 0.0), (4, 5, 0.0), (4, END, -1.0), (5, END, 0.0)]


@pytest.mark.parametrize(("vocabulary", "jit_compile"), [(8, False), slow(1_500, True)])
@pytest.mark.parametrize("dead_logit", [-INF, np.nan, INF])
def test_a_dead_end_leaves_the_other_hypotheses_of_its_source_alone(dead_logit, vocabulary, jit_compile):
    table = chain(vocabulary, *DEAD_END)
    table[3, 6:] = dead_logit  # all other logits of the row are -inf
    results = search_table(table, jit_compile)
    first, last = math.log(1 / (1 + math.e)), math.log(1 / (1 + math.exp(-1)))
    assert_same(hypotheses_of(results, 0), [((4, 5), first + last), ((4,), first + last - 1)])


def test_numbers_may_be_of_other_types():
    """Ids of 64 bits, as a StringLookup returns them, limits of NumPy, and weights of a decoder in half precision."""
    table = tf.math.log([[0.0, 0.6, 0.4], [0.0, 0.3, 0.7], [0.0, 0.0, 1.0]])
    results = []
    for integer, real in ((int, tf.float32), (np.int64, tf.float16), (lambda n: tf.constant(n, tf.int64), tf.bfloat16)):
        weights = tf.fill([1, 2, 4], tf.constant(0.25, real))
        hypotheses = beam_search(
            lambda tokens, state, real=real: (tf.cast(tf.gather(table, tokens), real), state),
            weights,
            beam_size=2,
            max_lengths=np.array([3]),
            max_steps=np.int64(3),
            start=integer(0),
            end=integer(2),
            attended=lambda state: state,
            covered=tf.zeros([1, 4]),
            coverage_penalty_weight=0.2,
        )
        results.append([values.numpy() for values in hypotheses])
    for tokens, lengths, scores in results[1:]:
        np.testing.assert_array_equal(tokens, results[0][0])
        np.testing.assert_array_equal(lengths, results[0][1])
        np.testing.assert_allclose(scores, results[0][2], rtol=0.01)


def logs(*probabilities):
    """Logits of a table for `chain`, from (token before, token, probability)."""
    return [(before, after, math.log(probability)) for before, after, probability in probabilities]


def test_a_search_ends_when_the_n_best_are_decided():
    """With n_best = 1 the finished hypothesis wins after one step: the unfinished ones take no further steps."""
    table, steps = np.zeros([8, 8], np.float32), []
    table[START, END] = 6.0

    def step(tokens, state):
        steps.append(1)
        return tf.gather(tf.constant(table), tokens), state

    options = {"beam_size": 2, "max_lengths": [9], "max_steps": 9, "start": START, "end": END}
    beam_search(step, tf.zeros([1, 2]), n_best=1, length_penalty_weight=0.5, **options)
    assert len(steps) == 1
    beam_search(step, tf.zeros([1, 2]), n_best=2, length_penalty_weight=0.5, **options)
    assert len(steps) > 2


def test_a_short_hypothesis_does_not_end_the_search_for_a_longer_one_that_scores_higher():
    table = chain(8, *logs((START, END, 0.55), (START, 3, 0.45), (3, 4, 1), (4, 5, 1), (5, END, 1)))
    results = search_table(table, beam_size=2, n_best=1, penalty=1.0)
    assert hypotheses_of(results, 0)[0][0] == (3, 4, 5)


@pytest.mark.parametrize("large_vocabulary", [1, 10_000])
def test_an_end_takes_no_place_of_an_unfinished_hypothesis(large_vocabulary, monkeypatch):
    monkeypatch.setattr("memattn.search.beam_search._LARGE_VOCABULARY", large_vocabulary)
    table = chain(8, *logs((START, 3, 0.4), (START, END, 0.31), (START, 4, 0.29), (3, END, 1), (4, END, 1)))
    results = search_table(table, beam_size=2, n_best=2, penalty=1.0)
    assert [tokens for tokens, _ in hypotheses_of(results, 0)] == [(3,), (4,)]


@without_and_with_xla
def test_missing_hypotheses_have_length_0_and_only_ends_as_tokens(jit_compile):
    results = search_table(chain(8, (START, 3, 0.0), (3, END, 0.0)), jit_compile)
    assert results.lengths.tolist() == [[1, 0, 0]]
    assert results.tokens.tolist() == [[[3, END, END, END, END], [END] * 5, [END] * 5]]
    assert results.scores.tolist() == [[0.0, -INF, -INF]]


def test_weights_that_are_nan_end_a_hypothesis():
    assert coverage_penalty(tf.constant([[1.0, np.nan], [1.0, 1.0]]), 0.3).numpy().tolist() == [-INF, 0.0]


@without_and_with_xla
def test_no_hypothesis_has_more_tokens_than_max_steps(jit_compile):
    """A maximum length above `max_steps` has the effect of `max_steps`, also on what counts as finished."""
    table = np.random.default_rng(5).normal(size=[8, 8]).astype(np.float32)
    above, equal = (
        search_table(table, jit_compile, max_lengths=limits, max_steps=3, penalty=1.0) for limits in ([9, 2], [3, 2])
    )
    assert above.tokens.shape == (2, 3, 3)
    np.testing.assert_equal(above, equal)
