"""A fake model to search with, and a plain beam search over it."""

import math

import numpy as np
import tensorflow as tf

from memattn.search.beam_search import beam_search
from memattn.search.translation import Hypotheses

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
    n_best=None,
    penalty=0.0,
    coverage=0.0,
    max_steps=None,
    table=TABLE,
    jit_compile=False,
    ngram=0,
) -> Hypotheses:
    """Searches with the fake model: a source is its first state; table[state] holds logits of the next token."""
    vocabulary = table.shape[1]
    attending = {
        "attended": lambda state: tf.gather(tf.constant(ATTENTION * REAL), state[0][:, :, 0]),
        "covered": tf.tile(tf.constant(1.0 - REAL, tf.float32)[None], [len(sources), 1]),
        "coverage_penalty_weight": coverage,
    }

    def step(tokens, state):
        (code,) = state
        code = next_code(code, tokens[:, :, None])  # [B, k, 1]
        logits = tf.gather(tf.constant(table), code[:, :, 0])
        return tf.ensure_shape(logits, [None, beam_size, vocabulary]), (code,)

    @tf.function(jit_compile=jit_compile)
    def run(sources, max_lengths):
        return beam_search(
            step,
            (tf.tile(sources[:, None, None], [1, beam_size, 1]),),
            beam_size=beam_size,
            n_best=n_best or beam_size,
            max_lengths=max_lengths,
            max_steps=max_steps or max(max_lengths_given),
            length_penalty_weight=penalty,
            no_repeat_ngram_size=ngram,
            start=START,
            end=END,
            **(attending if coverage else {}),
        )

    max_lengths_given = list(max_lengths)
    hypotheses = run(tf.constant(sources, tf.int32), tf.constant(max_lengths, tf.int32))
    return Hypotheses(*(tensor.numpy() for tensor in hypotheses))


def hypotheses_of(results, row):
    """The hypotheses of the source in a row of the batch, as pairs of tokens and score."""
    return [
        (tuple(results.tokens[row, k, : results.lengths[row, k]].tolist()), results.scores[row, k])
        for k in range(results.scores.shape[1])
        if results.scores[row, k] > -np.inf
    ]


def log_probabilities(code, table=TABLE):
    """Log-probabilities [V] of the next token in a state of the fake model."""
    logits = table[code].astype(np.float64)
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def penalised(log_probability, length, penalty):
    return log_probability / ((5 + length) / 6) ** penalty


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
        return penalised(total, len(tokens), penalty) + coverage * uncovered

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
