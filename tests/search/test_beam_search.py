"""Beam search over a fake model equals enumeration, a greedy loop and a plain beam search."""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf
from helpers.fake_search import (
    CODES,
    END,
    START,
    TABLE,
    V,
    log_probabilities,
    next_code,
    penalised,
    plain_beam_search,
    repeats,
    search,
    taken,
)
from helpers.marks import slow

from memattn.search.beam_search import Hypotheses, beam_search, coverage_penalty, length_penalty


def log_probability_of(source, tokens, max_length, table=TABLE):
    """The log-probability of the tokens, with their end of sentence unless they fill the maximum length."""
    total, code, before = 0.0, source, START
    for token in [*tokens, END][:max_length]:
        code = next_code(code, before)
        total += log_probabilities(code, table)[token]
        before = token
    return total


def enumerated(source, max_length, penalty):
    """All hypotheses and their scores, best first."""
    words = [token for token in range(V) if token != END]
    every = [tokens for length in range(max_length + 1) for tokens in itertools.product(words, repeat=length)]
    scored = [
        (tokens, penalised(log_probability_of(source, tokens, max_length), len(tokens), penalty)) for tokens in every
    ]
    return sorted(scored, key=lambda pair: -pair[1])


def assert_same(found, expected):
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in expected]
    np.testing.assert_allclose([score for _, score in found], [score for _, score in expected], rtol=1e-5, atol=1e-5)


def test_the_coverage_penalty_is_that_of_wu_et_al():
    covered = np.array([[0.5, 0.2, 1.0, 3.0], [1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
    expected = [0.7 * (math.log(0.5) + math.log(0.2)), 0.0, 0.7 * math.log(1e-6)]
    np.testing.assert_allclose(coverage_penalty(tf.constant(covered, tf.float32), 0.7), expected, rtol=1e-5)


@pytest.mark.parametrize("coverage", [slow(0.1), 0.5, slow(2.0)])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_search_with_coverage_penalty_is_the_plain_one(coverage, jit_compile):
    sources, lengths = [3, 10, 77, 500], [5, 4, 6, 1]
    found = search(sources, lengths, beam_size=3, penalty=0.6, coverage=coverage, jit_compile=jit_compile)
    without = search(sources, lengths, beam_size=3, penalty=0.6)
    for row, (source, length) in enumerate(zip(sources, lengths, strict=True)):
        assert_same(taken(found, row), plain_beam_search(source, length, 3, 0.6, coverage))
    assert any(taken(found, row)[0][0] != taken(without, row)[0][0] for row in range(4)) or coverage < 2


@pytest.mark.parametrize("weight", [0.0, 0.6, 1.0, 2.0])
def test_the_length_penalty_is_that_of_wu_et_al(weight):
    lengths = [0, 1, 7, 100]
    np.testing.assert_allclose(
        length_penalty(tf.constant(lengths), weight), [((5 + n) / 6) ** weight for n in lengths], rtol=1e-6
    )


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_a_beam_wide_enough_finds_all_hypotheses_in_order(penalty):
    sources, max_lengths = [3, 4, 5], [3, 2, 1]
    everything = [enumerated(*pair, penalty) for pair in zip(sources, max_lengths, strict=True)]
    assert [len(every) for every in everything] == [85, 21, 5]
    found = search(sources, max_lengths, beam_size=85, penalty=penalty)
    for row, every in enumerate(everything):
        assert_same(taken(found, row), every)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("beam_size", [1, slow(2), 3, slow(5), 10])
def test_beam_search_agrees_with_a_plain_one(beam_size, penalty):
    sources = list(range(20, 32))
    max_lengths = [8, 7, 6, 5] * 3
    found = search(sources, max_lengths, beam_size=beam_size, penalty=penalty)
    for row, (source, max_length) in enumerate(zip(sources, max_lengths, strict=True)):
        assert_same(taken(found, row), plain_beam_search(source, max_length, beam_size, penalty))


def test_the_plain_beam_search_is_a_real_test():
    """Among its sources are some where a wider beam, or a penalty, changes the best hypothesis, or a limit cuts it."""
    sources, best = range(20, 32), {}
    for beam_size, penalty in ((1, 0.0), (10, 0.0), (10, 1.0)):
        best[beam_size, penalty] = [plain_beam_search(source, 6, beam_size, penalty)[0][0] for source in sources]
    assert best[1, 0.0] != best[10, 0.0]
    assert best[10, 0.0] != best[10, 1.0]
    assert {len(tokens) for tokens in best[10, 1.0]} >= {0, 1, 6}


def test_a_beam_of_size_1_is_a_greedy_search():
    sources, max_length = list(range(40, 60)), 9
    found = search(sources, [max_length] * 20, beam_size=1)
    for row, source in enumerate(sources):
        tokens, code, last = [], source, START
        while len(tokens) < max_length:
            code = next_code(code, last)
            last = int(TABLE[code].argmax())
            if last == END:
                break
            tokens.append(last)
        assert found.lengths[row, 0] == len(tokens)
        assert found.tokens[row, 0].tolist() == tokens + [END] * (max_length - len(tokens))
    assert len(set(found.lengths[:, 0])) > 3


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_scores_are_sorted_and_those_of_the_tokens(penalty):
    sources, max_lengths = [7, 8, 9, 10], [6, 4, 6, 2]
    found = search(sources, max_lengths, beam_size=4, penalty=penalty)
    assert np.isfinite(found.scores).all()
    assert (np.diff(found.scores, axis=1) <= 0).all()
    for row, (source, max_length) in enumerate(zip(sources, max_lengths, strict=True)):
        for tokens, score in taken(found, row):
            total = log_probability_of(source, tokens, max_length)
            assert score == pytest.approx(penalised(total, len(tokens), penalty), rel=1e-5)


def test_tokens_past_the_length_are_ends():
    found = search([7, 8, 9], [6, 3, 0], beam_size=3, max_steps=8)
    assert found.tokens.shape == (3, 3, 8)
    past = np.arange(8) >= found.lengths[:, :, None]
    assert (found.tokens[past] == END).all()
    assert (found.tokens[:2][~past[:2]] != END).all()


def test_each_source_has_its_own_maximum_length():
    sources, max_lengths = [7, 7, 7, 7], [1, 2, 4, 8]
    found = search(sources, max_lengths, beam_size=3, penalty=1.0)
    assert found.lengths.max(1).tolist() == max_lengths


def test_a_result_does_not_depend_on_the_rest_of_the_batch():
    sources, max_lengths = [12, 13, 14, 15], [2, 7, 0, 4]
    together = search(sources, max_lengths, beam_size=6, penalty=0.6)
    for row, (source, max_length) in enumerate(zip(sources, max_lengths, strict=True)):
        alone = search([source], [max_length], beam_size=6, penalty=0.6, max_steps=9)
        assert_same(taken(together, row), taken(alone, 0))
    assert len(taken(together, 1)) == 6


def test_the_n_best_are_distinct():
    found = search([5, 6, 7], [5, 5, 5], beam_size=10)
    for row in range(3):
        hypotheses = [tokens for tokens, _ in taken(found, row)]
        assert len(set(hypotheses)) == len(hypotheses) == 10


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("n_best", [1, slow(2), 5])
def test_the_n_best_are_the_first_of_the_whole_beam(n_best, penalty):
    sources, max_lengths = list(range(100, 140)), [8, 12, 5, 20] * 10
    whole, best = (search(sources, max_lengths, beam_size=5, n_best=n, penalty=penalty) for n in (5, n_best))
    for row in range(40):
        assert_same(taken(best, row), taken(whole, row)[:n_best])


def test_a_search_ends_when_the_best_is_decided():
    """Unfinished hypotheses are not written further: one more step would fail."""
    first, steps = [0.01, 0.01, 0.98], []
    table = hand_made((FIRST, first))

    def step(tokens, state):
        steps.append(1)
        code = next_code(state[0], tokens[:, :, None])
        return tf.gather(tf.constant(table), code[:, :, 0]), (code,)

    def run(n_best):
        steps.clear()
        beam_search(
            step,
            (tf.fill([1, 2, 1], 50),),
            beam_size=2,
            n_best=n_best,
            max_lengths=tf.constant([30]),
            max_steps=30,
            length_penalty_weight=0.5,
            start=START,
            end=END,
        )
        return len(steps)

    assert run(1) == 1
    assert run(2) > 1


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_large_vocabulary_changes_nothing(penalty, jit_compile, monkeypatch):
    """Where the best tokens of each hypothesis are sought first, the search finds what it finds among all of them."""
    sources, max_lengths = list(range(20, 26)), [8, 7, 6] * 2
    options = {"beam_size": 3, "penalty": penalty, "jit_compile": jit_compile}
    every = search(sources, max_lengths, **options)
    monkeypatch.setattr("memattn.search.beam_search._LARGE_VOCABULARY", 1)
    for one, other in zip(search(sources, max_lengths, **options), every, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(("beam_size", "penalty"), [(1, 0.0), (10, 0.6)])
def test_graph_and_xla_agree(beam_size, penalty):
    sources, max_lengths = [3, 4, 5, 6], [7, 0, 5, 1]
    graph, xla = (
        search(sources, max_lengths, beam_size=beam_size, penalty=penalty, jit_compile=jit) for jit in (False, True)
    )
    np.testing.assert_array_equal(graph.scores == -np.inf, xla.scores == -np.inf)
    for row in range(4):
        assert_same(taken(xla, row), taken(graph, row))
    assert len(taken(graph, 0)) == beam_size


def test_a_source_of_padding_takes_no_step():
    found = search([3, 4], [0, 4], beam_size=3)
    assert taken(found, 0) == [((), 0.0)]
    assert_same(taken(found, 1), plain_beam_search(4, 4, 3, 0.0))


@pytest.mark.parametrize("eager", [False, True])
def test_a_batch_of_nothing_but_padding_is_harmless(eager):
    tf.config.run_functions_eagerly(eager)
    try:
        found = search([3, 4], [0, 0], beam_size=2, max_steps=3)
    finally:
        tf.config.run_functions_eagerly(False)
    assert found.tokens.tolist() == [[[END] * 3] * 2] * 2
    assert [taken(found, row) for row in range(2)] == [[((), 0.0)]] * 2


def hand_made(*probabilities):
    """A table in which row `code` holds the probabilities of tokens 0, 1 and END, for a model of 3 tokens."""
    table = np.full((CODES, 3), -np.log(3), np.float32)
    for code, row in probabilities:
        table[code] = np.log(np.maximum(row, 1e-30))
    return table


FIRST = next_code(50, START)  # after source 50
SECOND = next_code(FIRST, 0)  # and token 0


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [
        (0.0, [((), math.log(0.5)), ((0,), math.log(0.495))]),
        (1.0, [((0,), math.log(0.495)), ((), math.log(0.5) * 6 / 5)]),
    ],
)
def test_a_finished_hypothesis_stays_in_the_beam_until_better_ones_come(penalty, expected):
    table = hand_made((FIRST, [0.5, 0, 0.5]), (SECOND, [0.01, 0, 0.99]))
    for max_steps in (2, 6):
        found = search([50], [max_steps], beam_size=2, penalty=penalty, table=table)
        assert_same(taken(found, 0), expected)


def test_a_finished_hypothesis_leaves_the_beam_for_two_better_ones():
    table = hand_made((FIRST, [0.8, 0, 0.2]), (SECOND, [0, 0.4, 0.6]))
    found = search([50], [2], beam_size=2, table=table)
    assert_same(taken(found, 0), [((0,), math.log(0.48)), ((0, 1), math.log(0.32))])


def test_a_token_of_probability_0_is_never_taken():
    table = TABLE.copy()
    table[:, 3] = -np.inf
    found = search([3, 4], [4, 1], beam_size=40, table=table)
    for row, count in ((0, 40), (1, 4)):
        hypotheses = taken(found, row)
        assert len(hypotheses) == count
        assert all(3 not in tokens for tokens, _ in hypotheses)
    assert not np.isnan(found.scores).any()


def test_a_source_that_yields_nan_changes_no_other_source():
    table = TABLE.copy()
    table[next_code(50, START)] = np.nan
    found = search([50, 4], [5, 5], beam_size=3, table=table)
    assert not np.isfinite(found.scores[0]).any()
    assert_same(taken(found, 1), plain_beam_search(4, 5, 3, 0.0))


def test_equal_scores_take_the_first_beam_and_the_smaller_token():
    found = search([50], [2], beam_size=4, table=np.zeros((CODES, 3), np.float32))
    assert [tokens for tokens, _ in taken(found, 0)] == [(), (0, 0), (0, 1), (0,)]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"n_best": 3}, "n_best: must be at least 1 and at most beam_size = 2, not 3"),
        ({"n_best": 0}, "n_best: must be at least 1"),
        ({"beam_size": 0}, "at most beam_size = 0"),
        ({"length_penalty_weight": -1.0}, "length_penalty_weight: must not be negative"),
        ({"coverage_penalty_weight": 0.1}, "coverage_penalty_weight: needs attended and covered"),
        ({"covered": tf.zeros([1, 3])}, "needs attended and covered, which go together"),
        ({"max_steps": 0}, "max_steps: must be at least 1, not 0"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size: must be an int of at least 0, not -1"),
        ({"no_repeat_ngram_size": 1.5}, "no_repeat_ngram_size: must be an int of at least 0, not 1.5"),
    ],
)
def test_values_out_of_range_are_refused(wrong, problem):
    numbers = {"beam_size": 2, "max_lengths": tf.constant([4]), "max_steps": 4, "start": 1, "end": 2, **wrong}
    with pytest.raises(ValueError, match=problem):
        beam_search(lambda *_: None, (), **numbers)


INF = float("inf")
HOWS = ["eager", "graph", "xla"]


def run(table, how, *, batch=1, max_lengths=(5,), beam_size=3, max_steps=None, ngram=0, penalty=0.0, n_best=None):
    """Searches a table of logits [V, V], from each token to the next; returns arrays."""

    def go():
        return beam_search(
            lambda tokens, state: (tf.gather(tf.constant(table), tokens), state),
            tf.zeros([batch, beam_size]),
            beam_size=beam_size,
            n_best=n_best or beam_size,
            max_lengths=tf.constant(max_lengths),
            max_steps=max_steps or max(max_lengths),
            length_penalty_weight=penalty,
            no_repeat_ngram_size=ngram,
            start=START,
            end=END,
        )

    function = go if how == "eager" else tf.function(go, jit_compile=how == "xla")
    return Hypotheses(*(tensor.numpy() for tensor in function()))


def chain(vocabulary, *logits):
    """A table in which all that is not listed as (from, to, logit) is impossible."""
    table = np.full([vocabulary, vocabulary], -INF, np.float32)
    for before, after, logit in logits:
        table[before, after] = logit
    return table


# 3 is more probable than 4 at first, and then nothing can follow it.
DEAD_END = [(START, 3, 1.0), (START, 4, 0.0), (4, 5, 0.0), (4, END, -1.0), (5, END, 0.0)]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("vocabulary", [8, slow(1_500)])
@pytest.mark.parametrize("dead", [-INF, np.nan, INF])
def test_a_dead_end_leaves_the_other_hypotheses_of_its_source_alone(dead, vocabulary, how):
    table = chain(vocabulary, *DEAD_END)
    table[3, 6:] = dead  # some of NaN, and all of -inf
    found = run(table, how)
    first, last = math.log(1 / (1 + math.e)), math.log(1 / (1 + math.exp(-1)))
    assert_same(taken(found, 0), [((4, 5), first + last), ((4,), first + last - 1)])


@pytest.mark.parametrize("how", HOWS)
def test_places_without_a_hypothesis_have_no_length_and_ends(how):
    found = run(chain(8, (START, 3, 0.0), (3, END, 0.0)), how)
    assert found.lengths.tolist() == [[1, 0, 0]]
    assert found.tokens.tolist() == [[[3, END, END, END, END], [END] * 5, [END] * 5]]
    assert found.scores.tolist() == [[0.0, -INF, -INF]]


def test_a_search_ends_when_no_hypothesis_can_go_on():
    steps = []

    def step(tokens, state):
        steps.append(1)
        return tf.gather(tf.constant(chain(8, (START, 3, 0.0), (3, 4, 0.0))), tokens), state

    state = tf.zeros([1, 2])
    beam_search(step, state, beam_size=2, n_best=2, max_lengths=[50], max_steps=50, start=START, end=END)
    assert len(steps) == 3  # the last one tells


def test_weights_that_are_nan_leave_the_other_hypotheses_alone():
    """With a coverage penalty, a hypothesis that attends to nothing ends, and no other."""

    def step(tokens, state):
        del state
        weights = tf.where((tokens == 3)[..., None], np.float32(np.nan), tf.ones([1, 2, 4]))
        return tf.gather(tf.constant(chain(8, *DEAD_END[1:], (START, 3, 1.0), (3, 5, 0.0))), tokens), weights

    found = beam_search(
        step,
        tf.zeros([1, 2, 4]),
        beam_size=2,
        max_lengths=[5],
        max_steps=5,
        start=START,
        end=END,
        attended=lambda weights: weights,
        covered=[[0.0, 0.0, 0.0, 1.0]],
        coverage_penalty_weight=0.3,
    )
    assert found.tokens[0, 0].numpy().tolist() == [4, 5, END, END, END]
    assert np.isfinite(found.scores[0, 0])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_batch_of_unknown_size_may_need_no_step(jit_compile):
    specification = [tf.TensorSpec([None], tf.int32)]

    @tf.function(input_signature=specification, jit_compile=jit_compile)
    def go(limits):
        state = tf.zeros([tf.shape(limits)[0], 3])
        step = lambda tokens, state: (tf.gather(tf.constant(chain(8, *DEAD_END)), tokens), state)  # noqa: E731
        return beam_search(step, state, beam_size=3, max_lengths=limits, max_steps=4, start=START, end=END)

    for limits in ([0, 0], [], [4, 0]):
        found = go(tf.constant(limits, tf.int32))
        assert found.tokens.shape == (len(limits), 1, 4)
        assert found.lengths.numpy().ravel().tolist() == [{0: 0, 4: 2}[limit] for limit in limits]
    assert (go(tf.constant([0])).tokens.numpy() == END).all()


@pytest.mark.parametrize("limits", [[5, 3], (5, 3), np.array([5, 3]), tf.constant([5, 3], tf.int64)])
def test_limits_may_be_a_list_or_any_ints(limits):
    step = lambda tokens, state: (tf.gather(tf.constant(chain(8, (START, 3, 0.0), (3, 3, 0.0))), tokens), state)  # noqa: E731
    found = beam_search(step, tf.zeros([2, 2]), beam_size=2, max_lengths=limits, max_steps=5, start=START, end=END)
    assert found.lengths.numpy().tolist() == [[5], [3]]


@pytest.mark.parametrize("how", HOWS)
def test_no_hypothesis_has_more_tokens_than_the_steps_given(how):
    """Limits above `max_steps` are as if they were `max_steps`: also for what counts as finished."""
    table = np.random.default_rng(5).normal(size=[8, 8]).astype(np.float32)
    options = {"batch": 2, "penalty": 1.0}
    above, equal = (run(table, how, max_lengths=limits, max_steps=3, **options) for limits in ([9, 2], [3, 2]))
    assert above.tokens.shape == (2, 3, 3)
    for one, other in zip(above, equal, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("ngram", [1, 2, 3])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_no_ngram_is_repeated(ngram, jit_compile):
    sources, lengths = list(range(20, 28)), [9, 8, 12, 5] * 2
    options = {"beam_size": 3, "penalty": 0.6}
    found = search(sources, lengths, ngram=ngram, jit_compile=jit_compile, **options)
    free = search(sources, lengths, **options)
    for row, (source, length) in enumerate(zip(sources, lengths, strict=True)):
        assert_same(taken(found, row), plain_beam_search(source, length, 3, 0.6, ngram=ngram))
    assert any(repeats(tokens, ngram) for row in range(8) for tokens, _ in taken(free, row))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_no_ngram_is_repeated_from_a_large_vocabulary(jit_compile, monkeypatch):
    monkeypatch.setattr("memattn.search.beam_search._LARGE_VOCABULARY", 1)
    found = search([20, 21, 22], [9, 8, 12], beam_size=3, ngram=2, jit_compile=jit_compile)
    for row, (source, length) in enumerate(zip([20, 21, 22], [9, 8, 12], strict=True)):
        assert_same(taken(found, row), plain_beam_search(source, length, 3, 0.0, ngram=2))


def test_a_loop_of_one_token_is_left_where_ngrams_are_not_repeated():
    """The usual degenerate hypothesis: one token again and again, up to the limit."""
    table = chain(8, (START, 3, 0.0), (3, 3, 2.0), (3, 4, 0.0), (4, END, 0.0))
    assert run(table, "graph", beam_size=1).tokens.tolist() == [[[3] * 5]]
    for ngram, expected in ((1, [3, 4]), (2, [3, 3, 4]), (3, [3, 3, 3, 4]), (9, [3] * 5)):
        found = run(table, "graph", beam_size=1, ngram=ngram)
        assert found.tokens[0, 0, : found.lengths[0, 0]].tolist() == expected
    found = run(table, "graph", beam_size=1, ngram=1)
    assert found.scores[0, 0] == pytest.approx(-math.log1p(math.exp(2)))  # what is left out keeps its probability


def test_a_hypothesis_that_could_but_repeat_ends_without_a_result():
    found = run(chain(8, (START, 3, 0.0), (3, 3, 0.0)), "graph", beam_size=2, ngram=1)
    assert found.scores.tolist() == [[-INF, -INF]]
    assert found.lengths.tolist() == [[0, 0]]


def test_one_step_by_hand():
    """Three hypotheses in the second step, of which the second is finished, and five candidates a hypothesis."""
    first = np.log([1e-9, 1e-9, 0.3, 0.5, 0.2])  # of 0, START, END, 3, 4
    after_3, after_4 = np.log([0.05, 0.05, 0.4, 0.25, 0.25]), np.log([0.1, 0.1, 0.1, 0.6, 0.1])
    table = np.zeros([5, 5], np.float32)
    table[START], table[3], table[4] = first, after_3, after_4
    found = run(table, "graph", max_lengths=[2])
    # after one step: 3 (0.5), finished (0.3), 4 (0.2); then 3 END 0.2, 3 3 and 3 4 0.125, 4 3 0.12
    assert_same(taken(found, 0), [((), math.log(0.3)), ((3,), math.log(0.2)), ((3, 3), math.log(0.125))])
    # A penalty favours what is longer: log 0.3 / (5/6), log 0.2, log 0.125 / (7/6).
    found = run(table, "graph", max_lengths=[2], penalty=1.0)
    expected = [((), 6 / 5 * math.log(0.3)), ((3,), math.log(0.2)), ((3, 3), 6 / 7 * math.log(0.125))]
    assert_same(taken(found, 0), sorted(expected, key=lambda pair: -pair[1]))


def test_parents_that_cross_are_traced_back():
    """The better hypothesis of the second step descends from the second one of the first step, and in the third not."""
    table = chain(
        8,
        *[(START, 3, math.log(0.6)), (START, 4, math.log(0.4))],
        *[(3, 5, math.log(0.5)), (3, 6, math.log(0.5)), (4, 7, 0.0)],  # 4 7: 0.4, 3 5 and 3 6: 0.3
        *[(7, 3, math.log(0.5)), (7, 4, math.log(0.5)), (5, 6, 0.0), (6, END, 0.0)],  # 3 5 6: 0.3, 4 7 3: 0.2
    )
    found = run(table, "graph", beam_size=2, max_lengths=[3])
    assert [tokens for tokens, _ in taken(found, 0)] == [(3, 5, 6), (4, 7, 3)]


def test_sources_of_a_batch_end_at_different_steps():
    """A finished source keeps its tokens and scores while others are searched."""
    table = chain(8, (START, 3, 0.0), (3, 4, 0.0), (4, 5, 0.0), (5, END, 0.0))
    found = run(table, "graph", batch=3, max_lengths=[1, 2, 6], beam_size=1)
    assert found.lengths.ravel().tolist() == [1, 2, 3]
    assert found.tokens[:, 0].tolist() == [[3] + [END] * 5, [3, 4] + [END] * 4, [3, 4, 5] + [END] * 3]
    assert found.scores.ravel().tolist() == [0.0] * 3
