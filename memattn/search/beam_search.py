"""Beam search over any step function, in the graph."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from memattn.search.repeated_ngrams import extend_history, forbid_tokens, repeating_tokens
from memattn.search.translation import Hypotheses

_LARGE_VOCABULARY = 1_000  # from this size on, taking the best tokens of each hypothesis first is faster


class _Beam(NamedTuple):
    """State of a search after `time` steps: the k best hypotheses of each source."""

    time: tf.Tensor | int
    tokens: tf.Tensor  # [B, k], the last tokens
    log_probs: tf.Tensor  # [B, k], summed over the tokens; -inf where there is no hypothesis
    lengths: tf.Tensor  # [B, k], tokens without the end of sentence
    finished: tf.Tensor  # [B, k], whether a hypothesis ended or reached its maximum length
    decided: tf.Tensor  # [B], whether a source's n best hypotheses are final
    covered: tf.Tensor  # [B, k, S], source weights summed over the steps; S = 0 without a coverage penalty
    state: Any  # next state of the step function, tensors [B, k, ...]
    history: tf.Tensor | tuple  # see `repeated_ngrams`; () if n-grams may be repeated
    all_tokens: tf.TensorArray  # the tokens [B, k] of each step
    all_parents: tf.TensorArray  # the ranks [B, k] on the previous beam of the hypotheses that each step extends


def length_penalty(lengths: tf.Tensor, weight: float) -> tf.Tensor:
    """Returns ((5 + length) / 6) ^ weight of Wu et al. (2016); 1 for weight 0."""
    return tf.pow((5.0 + tf.cast(lengths, tf.float32)) / 6.0, weight)


def coverage_penalty(covered: tf.Tensor, weight: float) -> tf.Tensor:
    """Returns b sum_s log(min(covered_s, 1)) of Wu et al. (2016) over the last axis, where b is the weight.

    A position without attention counts as 1e-6. The penalty is -inf where `covered` holds NaN.
    """
    penalty = weight * tf.reduce_sum(tf.math.log(tf.clip_by_value(covered, 1e-6, 1.0)), -1)
    return tf.where(tf.math.is_nan(penalty), -float("inf"), penalty)


def beam_search(
    step: Callable[[tf.Tensor, Any], tuple[tf.Tensor, Any]],
    state: Any,
    *,
    beam_size: int,
    max_lengths: tf.Tensor,
    max_steps: int,
    start: int,
    end: int,
    n_best: int = 1,
    length_penalty_weight: float = 0.0,
    attended: Callable[[Any], tf.Tensor] | None = None,
    covered: tf.Tensor | None = None,
    coverage_penalty_weight: float = 0.0,
    no_repeat_ngram_size: int = 0,
) -> Hypotheses:
    """Returns the n best hypotheses of each source.

    As in google/seq2seq, a finished hypothesis stays on the beam until k hypotheses are better. A hypothesis
    that reaches its maximum length is kept without an end of sentence. A source's search stops once none of its
    unfinished hypotheses can enter the n best. A token whose logit is -inf is never chosen. A hypothesis is dropped if
    all logits are -inf, or one of them is NaN.

    Args:
      step: (tokens [B, k], state) -> logits [B, k, V] of the next token, next state. V is known while
        the step is traced.
      state: nested tensors [B, k, ...], equal for all k queries of a source.
      beam_size: k, the number of hypotheses of each source.
      max_lengths: [B], upper bound on the steps of each source, its end of sentence included. A bound per source makes
        hypotheses independent of the rest of the batch.
      max_steps: L, at least 1; upper bound on the steps of all sources, whatever `max_lengths` says.
      start, end: ids of the first input and of the end of sentence.
      n_best: n, at most k.
      length_penalty_weight: a of `length_penalty`, not negative.
      attended: for a coverage penalty: next state -> the source weights [B, k, S] of the step that led to it.
      covered: for a coverage penalty: [B, S], 0 for source positions, 1 for padding.
      coverage_penalty_weight: b of `coverage_penalty`, not negative.
      no_repeat_ngram_size: length of the n-grams that a hypothesis never has twice; 0: it may repeat any.

    Raises ValueError for arguments out of their ranges.

    Example:
      >>> import memattn
      >>> import tensorflow as tf
      >>> table = tf.math.log([[0.0, 0.6, 0.4], [0.0, 0.3, 0.7], [0.0, 0.0, 1.0]])  # 2 ends an output
      >>> step = lambda tokens, state: (tf.gather(table, tokens), state)  # the state is empty
      >>> options = {"beam_size": 2, "max_lengths": [4], "max_steps": 4, "start": 0, "end": 2}
      >>> hypotheses = memattn.beam_search(step, (), n_best=2, **options)
      >>> hypotheses.lengths.numpy()  # of the hypotheses "1" and "", with probabilities 0.42 and 0.4
      array([[1, 0]], dtype=int32)
    """
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best: must be at least 1 and at most beam_size = {beam_size}, not {n_best}")
    if max_steps < 1 or min(length_penalty_weight, coverage_penalty_weight, no_repeat_ngram_size) < 0:
        raise ValueError("max_steps must be at least 1; weights and no_repeat_ngram_size must not be negative")
    if (attended is None) != (covered is None) or (coverage_penalty_weight and attended is None):
        raise ValueError("coverage_penalty_weight: needs attended and covered, which need each other")
    max_steps = int(max_steps)  # NumPy's 64 bits would widen the tensors made of it
    start, end = tf.cast(start, tf.int32), tf.cast(end, tf.int32)
    max_lengths = tf.minimum(tf.cast(tf.convert_to_tensor(max_lengths), tf.int32), max_steps)
    largest_penalty = length_penalty(max_lengths, length_penalty_weight)[:, None]
    batch = tf.shape(max_lengths)[0]
    covered = tf.zeros([batch, 0]) if covered is None else tf.cast(tf.convert_to_tensor(covered), tf.float32)
    zeros = tf.zeros([batch, beam_size], tf.int32)
    # A graph cannot stack an array of which it has seen no element.
    all_tokens, all_parents = (
        tf.TensorArray(tf.int32, max_steps, element_shape=[max_lengths.shape[0], beam_size]).write(0, zeros)
        for _ in range(2)
    )
    first = _Beam(
        time=0,
        tokens=tf.fill([batch, beam_size], start),
        log_probs=tf.tile(_only_first(beam_size)[None], [batch, 1]),  # a single hypothesis of each source
        lengths=zeros,
        finished=tf.tile((max_lengths <= 0)[:, None], [1, beam_size]),
        decided=max_lengths <= 0,
        covered=tf.tile(covered[:, None], [1, beam_size, 1]),
        state=state,
        history=tf.fill([batch, beam_size, max_steps], -1) if no_repeat_ngram_size else (),
        all_tokens=all_tokens,
        all_parents=all_parents,
    )

    def undecided(beam: _Beam):
        return ~tf.reduce_all(beam.decided)

    def advance(beam: _Beam) -> tuple[_Beam]:
        time, history, repeating = beam.time, beam.history, None
        if no_repeat_ngram_size:
            history = extend_history(history, beam.tokens, time)
            repeating = repeating_tokens(history, time, no_repeat_ngram_size)
        logits, state = step(beam.tokens, beam.state)
        # k + 1: tokens other than the end rank by probability, since they add the same length. The end adds none, so a
        # length penalty may rank it behind the k-th of the others.
        tokens, log_probs = _most_probable(logits, beam_size + 1, repeating)  # [B, k, C], C continuations of each
        had_ended, number = beam.finished[:, :, None], tokens.shape[2]
        tokens = tf.where(had_ended, end, tokens)  # a finished hypothesis has one continuation, by another end
        log_probs = beam.log_probs[:, :, None] + tf.where(had_ended, _only_first(number), log_probs)
        log_probs = tf.where(log_probs > -float("inf"), log_probs, -float("inf"))  # NaN drops the hypothesis
        lengths = beam.lengths[:, :, None] + tf.cast(tokens != end, tf.int32)
        scores = log_probs / length_penalty(lengths, length_penalty_weight)
        covered = beam.covered
        if attended is not None:
            covered = tf.where(had_ended, covered, covered + tf.cast(attended(state), tf.float32))
            scores += coverage_penalty(covered, coverage_penalty_weight)[:, :, None]
        flat = [-1, beam_size * number]
        scores, best = tf.math.top_k(tf.reshape(scores, flat), beam_size)
        parents = best // number  # ranks on the previous beam
        tokens, log_probs, lengths = (
            tf.gather(tf.reshape(values, flat), best, batch_dims=1) for values in (tokens, log_probs, lengths)
        )
        finished = tf.gather(beam.finished, parents, batch_dims=1) | (tokens == end)
        finished |= (time + 1 >= max_lengths)[:, None]
        bounds = log_probs / largest_penalty  # upper bounds on later scores, as log-probabilities can only fall
        covered, state, history = tf.nest.map_structure(
            lambda tensor: tf.gather(tensor, parents, batch_dims=1), (covered, state, history)
        )
        return (
            _Beam(
                time=time + 1,
                tokens=tokens,
                log_probs=log_probs,
                lengths=lengths,
                finished=finished,
                decided=_decided(scores, bounds, finished, n_best),
                covered=covered,
                state=state,
                history=history,
                all_tokens=beam.all_tokens.write(time, tokens),
                all_parents=beam.all_parents.write(time, parents),
            ),
        )

    (beam,) = tf.while_loop(undecided, advance, (first,), maximum_iterations=max_steps)
    log_probs, lengths, covered = beam.log_probs[:, :n_best], beam.lengths[:, :n_best], beam.covered[:, :n_best]
    scores = log_probs / length_penalty(lengths, length_penalty_weight)
    scores += coverage_penalty(covered, coverage_penalty_weight)
    lengths = tf.where(scores > -float("inf"), lengths, 0)
    tokens = _backtrack(beam.all_tokens.stack(), beam.all_parents.stack(), beam.time, n_best)  # [L, B, n]
    tokens = tf.where(tf.range(max_steps)[:, None, None] >= lengths, end, tokens)
    return Hypotheses(tf.transpose(tokens, [1, 2, 0]), lengths, scores)


def _only_first(size: int) -> tf.Tensor:
    """Returns log-probabilities [size] of 0 for the first rank and -inf for all others."""
    return tf.where(tf.range(size) == 0, 0.0, -float("inf"))


def _most_probable(
    logits: tf.Tensor, number: int, repeating: tuple[tf.Tensor, tf.Tensor] | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns tokens [B, k, C] and their log-probabilities, for logits [B, k, V].

    The tokens include at least the `number` most probable. Tokens that are `repeating` an n-gram get -inf. All
    log-probabilities are NaN or -inf if all logits are -inf, or one of them is NaN.
    """
    logits = tf.cast(logits, tf.float32)
    vocabulary = logits.shape[-1]
    if vocabulary < max(_LARGE_VOCABULARY, number):
        tokens = tf.ensure_shape(tf.broadcast_to(tf.range(vocabulary), tf.shape(logits)), logits.shape)
        log_probs = tf.nn.log_softmax(logits)
        return tokens, log_probs if repeating is None else forbid_tokens(log_probs, *repeating)
    allowed = logits if repeating is None else forbid_tokens(logits, *repeating)
    best, tokens = tf.math.top_k(allowed, number)
    return tokens, best - tf.reduce_logsumexp(logits, -1, keepdims=True)


def _decided(scores: tf.Tensor, bounds: tf.Tensor, finished: tf.Tensor, n_best: int) -> tf.Tensor:
    """Returns whether the n best hypotheses of each source [B] are final.

    They are final if all n are finished and no unfinished hypothesis can score higher than the n-th. `bounds` [B, k]
    are upper bounds on the scores that hypotheses can reach.
    """
    bounds = tf.where(finished, -float("inf"), bounds)
    nth = tf.where(finished, scores, -float("inf"))[:, n_best - 1 : n_best]
    return ~(tf.reduce_any(bounds[:, :n_best] > -float("inf"), 1) | tf.reduce_any(bounds > nth, 1))


def _backtrack(tokens: tf.Tensor, parents: tf.Tensor, steps: tf.Tensor, n_best: int) -> tf.Tensor:
    """Returns the tokens [L, B, n] of the first n hypotheses, traced back through their parents.

    `tokens` and `parents` are [L, B, k]. What the search did not reach, from `steps` on, is left unset.
    """
    max_steps = tokens.shape[0]
    ranks = tf.tile(tf.range(n_best)[None], [tf.shape(tokens)[1], 1])
    paths = tf.TensorArray(tf.int32, max_steps, element_shape=[tokens.shape[1], n_best]).write(0, ranks)

    def back(time, ranks, paths):
        paths = paths.write(time, tf.gather(tokens[time], ranks, batch_dims=1))
        return time - 1, tf.gather(parents[time], ranks, batch_dims=1), paths

    _, _, paths = tf.while_loop(
        lambda time, *_: time >= 0, back, (steps - 1, ranks, paths), maximum_iterations=max_steps
    )
    return paths.stack()
