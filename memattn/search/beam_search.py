"""Beam search over any step function, in the graph."""

import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

_LARGE_VOCABULARY = 1_000  # from this size on, first taking the best tokens of each hypothesis is faster


class Hypotheses(NamedTuple):
    """The n best hypotheses of each source, best first.

    Attributes:
      tokens: [B, n, L], `end` from each hypothesis' length on.
      lengths: [B, n], without the end of sentence; 0 for places without a hypothesis.
      scores: [B, n], log-probability over length penalty, plus coverage penalty; -inf for places without a
        hypothesis.
    """

    tokens: tf.Tensor
    lengths: tf.Tensor
    scores: tf.Tensor


def length_penalty(lengths: tf.Tensor, weight: float) -> tf.Tensor:
    """((5 + length) / 6) ^ weight of Wu et al. (2016); 1 for weight 0."""
    return tf.pow((5.0 + tf.cast(lengths, tf.float32)) / 6.0, weight)


def coverage_penalty(covered: tf.Tensor, weight: float) -> tf.Tensor:
    """b sum_s log(min(covered_s, 1)) of Wu et al. (2016) over the last axis; an unattended position counts 1e-6.

    It is -inf where `covered` holds NaN.
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
    """Searches as google/seq2seq does: a finished hypothesis keeps its place on the beam while none is better.

    Lengths count tokens without the end of sentence. A hypothesis that reaches its maximum length is kept without an
    end of sentence. A source's search stops once none of its unfinished hypotheses can enter the n best. A token whose
    logit is -inf is never taken. A hypothesis ends without a result where all logits are -inf or one of them is NaN.

    Args:
      step: (tokens [B, k], state) -> logits [B, k, V] of the next token, next state.
      state: nested tensors [B, k, ...], equal for all k queries of a source.
      beam_size: k.
      max_lengths: [B], the most steps for each source (its end of sentence included); per source, so that
        hypotheses do not depend on the rest of the batch.
      max_steps: L, at least 1; the most steps for all sources, whatever `max_lengths` says.
      start, end: ids of the first input and of the end of sentence.
      n_best: n, at most k.
      length_penalty_weight: a of `length_penalty`, not negative.
      attended: for a coverage penalty; next state -> the source weights [B, k, S] of the step that led to it.
      covered: [B, S], 0 for real source positions, 1 for the others.
      coverage_penalty_weight: b of `coverage_penalty`, not negative; needs the two before.
      no_repeat_ngram_size: a hypothesis never has the same so many tokens in a row twice; 0: it may.

    Raises ValueError for numbers out of their ranges.
    """
    _check(beam_size, n_best, max_steps, {"length": length_penalty_weight, "coverage": coverage_penalty_weight})
    check_ngram_size(no_repeat_ngram_size)
    if (attended is None) != (covered is None) or (coverage_penalty_weight and attended is None):
        raise ValueError("coverage_penalty_weight: needs attended and covered, which go together")
    max_lengths = tf.minimum(tf.cast(tf.convert_to_tensor(max_lengths), tf.int32), max_steps)
    batch, static_shape = tf.shape(max_lengths)[0], [max_lengths.shape[0], beam_size]
    first_only = tf.where(tf.range(beam_size) == 0, 0.0, -float("inf"))
    most_tokens = length_penalty(max_lengths, length_penalty_weight)[:, None]
    covered = tf.zeros([batch, 0]) if attended is None else tf.cast(tf.convert_to_tensor(covered), tf.float32)
    unwritten = tf.zeros([batch, beam_size], tf.int32)  # a graph cannot stack arrays of which it has seen no element
    history = no_history(batch, beam_size, max_steps) if no_repeat_ngram_size else ()
    initial = (
        0,
        tf.fill([batch, beam_size], start),
        tf.tile(first_only[None], [batch, 1]),  # log-probabilities
        tf.zeros([batch, beam_size], tf.int32),  # lengths
        tf.tile((max_lengths <= 0)[:, None], [1, beam_size]),  # finished
        max_lengths <= 0,  # whether the n best are final
        tf.tile(covered[:, None], [1, beam_size, 1]),
        (state, history),
        tf.TensorArray(tf.int32, max_steps, element_shape=static_shape).write(0, unwritten),  # tokens
        tf.TensorArray(tf.int32, max_steps, element_shape=static_shape).write(0, unwritten),  # parents
    )

    def undecided(time, tokens, log_probs, lengths, finished, decided, *_):
        return ~tf.reduce_all(decided)

    def advance(time, tokens, log_probs, lengths, finished, decided, covered, state, all_tokens, all_parents):
        (state, history), repeating = state, None
        if no_repeat_ngram_size:
            history = extended(history, tokens, time)
            repeating = repeated(history, time, no_repeat_ngram_size)
        logits, state = step(tokens, state)
        if attended is not None:
            covered = tf.where(finished[:, :, None], covered, covered + attended(state))
        tokens, next_log_probs = _continuations(logits, beam_size + 1, repeating)  # [B, k, C]
        tokens = tf.where(finished[:, :, None], end, tokens)
        only_first = tf.where(tf.range(tokens.shape[2]) == 0, 0.0, -float("inf"))
        totals = log_probs[:, :, None] + tf.where(finished[:, :, None], only_first, next_log_probs)
        totals = tf.where(totals > -float("inf"), totals, -float("inf"))  # NaN: no hypothesis goes on from there
        next_lengths = lengths[:, :, None] + tf.cast(tokens != end, tf.int32)
        scores = totals / length_penalty(next_lengths, length_penalty_weight)
        if attended is not None:
            scores += coverage_penalty(covered, coverage_penalty_weight)[:, :, None]
        candidates = beam_size * tokens.shape[2]
        scores, best = tf.math.top_k(tf.reshape(scores, [batch, candidates]), beam_size)  # [B, k]
        parents = best // tokens.shape[2]

        def chosen(values):
            return tf.gather(tf.reshape(values, [batch, candidates]), best, batch_dims=1)

        tokens, log_probs, lengths = chosen(tokens), chosen(totals), chosen(next_lengths)
        finished = tf.gather(finished, parents, batch_dims=1) | (tokens == end)
        finished |= (time + 1 >= max_lengths)[:, None]
        attainable = tf.where(finished, -float("inf"), log_probs / most_tokens)  # at most: what follows is negative
        nth = tf.where(finished, scores, -float("inf"))[:, n_best - 1 : n_best]
        still_open = tf.reduce_any(attainable[:, :n_best] > -float("inf"), 1) | tf.reduce_any(attainable > nth, 1)
        state = tf.nest.map_structure(lambda tensor: tf.gather(tensor, parents, batch_dims=1), (state, history))
        return (
            time + 1,
            tokens,
            log_probs,
            lengths,
            finished,
            ~still_open,
            tf.gather(covered, parents, batch_dims=1),
            state,
            all_tokens.write(time, tokens),
            all_parents.write(time, parents),
        )

    time, _, log_probs, lengths, _, _, covered, _, all_tokens, all_parents = tf.while_loop(
        undecided, advance, initial, maximum_iterations=max_steps
    )
    log_probs, lengths, covered = log_probs[:, :n_best], lengths[:, :n_best], covered[:, :n_best]
    scores = log_probs / length_penalty(lengths, length_penalty_weight)
    scores += coverage_penalty(covered, coverage_penalty_weight)
    lengths = tf.where(scores > -float("inf"), lengths, 0)
    tokens = _backtrack(all_tokens.stack(), all_parents.stack(), time, n_best)  # [L, B, n]
    tokens = tf.where(tf.range(max_steps)[:, None, None] >= lengths, end, tokens)
    return Hypotheses(tf.transpose(tokens, [1, 2, 0]), lengths, scores)


def _check(beam_size: int, n_best: int, max_steps: int, penalties: dict[str, float]) -> None:
    """Raises ValueError for numbers out of their ranges."""
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best: must be at least 1 and at most beam_size = {beam_size}, not {n_best}")
    if max_steps < 1:
        raise ValueError(f"max_steps: must be at least 1, not {max_steps}")
    for name, weight in penalties.items():
        if weight < 0:
            raise ValueError(f"{name}_penalty_weight: must not be negative, not {weight}")


def _continuations(
    logits: tf.Tensor, most: int, repeating: tuple[tf.Tensor, tf.Tensor] | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns tokens [B, k, C], among them the `most` most probable ones that are not `repeating`, and their
    log-probabilities by logits [B, k, V]: NaN or -inf for all tokens if these are all -inf, or one of them is NaN.
    """
    logits = tf.cast(logits, tf.float32)
    vocabulary = logits.shape[-1]
    if vocabulary < max(_LARGE_VOCABULARY, most):
        tokens = tf.ensure_shape(tf.broadcast_to(tf.range(vocabulary), tf.shape(logits)), logits.shape)
        log_probs = tf.nn.log_softmax(logits)
        return tokens, log_probs if repeating is None else without(log_probs, *repeating)
    best, tokens = tf.math.top_k(logits if repeating is None else without(logits, *repeating), most)
    return tokens, best - tf.reduce_logsumexp(logits, -1, keepdims=True)


def check_ngram_size(size: int) -> None:
    """Raises ValueError for a `no_repeat_ngram_size` out of its range."""
    if not isinstance(size, numbers.Integral) or isinstance(size, bool) or size < 0:
        raise ValueError(f"no_repeat_ngram_size: must be an int of at least 0, not {size!r}")


def no_history(batch: tf.Tensor, queries: int, steps: int) -> tf.Tensor:
    """The tokens [B, k, L] of hypotheses before the first step; places not yet written hold -1."""
    return tf.fill([batch, queries, steps], -1)


def extended(history: tf.Tensor, tokens: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
    """The history [B, k, L] with the tokens [B, k] that step `time` reads; step 0 reads none of the hypothesis."""
    return tf.where(tf.range(tf.shape(history)[2]) == time - 1, tokens[:, :, None], history)


def repeated(history: tf.Tensor, time: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns tokens [B, k, W] of a history, and which of them would repeat an n-gram of `size` tokens in step `time`.

    A token would repeat one if the `size` - 1 tokens before it are the last ones of the hypothesis.
    """
    windows = tf.maximum(tf.shape(history)[2] - size + 1, 0)
    following = history[:, :, size - 1 :]  # W, the last token of each window
    repeats = following >= 0
    for place in range(size - 1):
        last = tf.gather(history, tf.maximum(time - size + 1 + place, 0), axis=2)  # [B, k]
        repeats &= history[:, :, place : place + windows] == last[:, :, None]
    return following, repeats & (time >= size)


def without(values: tf.Tensor, tokens: tf.Tensor, repeats: tf.Tensor) -> tf.Tensor:
    """Values [B, k, V] with -inf for those of the tokens [B, k, W] that are `repeats`."""
    shape = tf.shape(values)
    rows = tf.range(shape[0] * shape[1])[:, None]  # [B k, 1]
    flat, repeats = (tf.reshape(x, tf.concat([[shape[0] * shape[1]], tf.shape(x)[2:]], 0)) for x in (tokens, repeats))
    places = tf.stack([tf.broadcast_to(rows, tf.shape(flat)), tf.maximum(flat, 0)], -1)  # [B k, W, 2]
    added = tf.where(repeats, tf.constant(-float("inf"), values.dtype), tf.zeros([], values.dtype))
    changed = tf.tensor_scatter_nd_add(tf.reshape(values, [-1, shape[2]]), places, added)
    return tf.ensure_shape(tf.reshape(changed, shape), values.shape)


def _backtrack(tokens: tf.Tensor, parents: tf.Tensor, steps: tf.Tensor, n_best: int) -> tf.Tensor:
    """Tokens [L, B, n] of the first n hypotheses, traced back through their parents; rows past `steps` are unset."""
    max_steps = tokens.shape[0]
    places = tf.tile(tf.range(n_best)[None], [tf.shape(tokens)[1], 1])
    paths = tf.TensorArray(tf.int32, max_steps, element_shape=[tokens.shape[1], n_best]).write(0, places)

    def back(time, places, paths):
        paths = paths.write(time, tf.gather(tokens[time], places, batch_dims=1))
        return time - 1, tf.gather(parents[time], places, batch_dims=1), paths

    _, _, paths = tf.while_loop(
        lambda time, *_: time >= 0, back, (steps - 1, places, paths), maximum_iterations=max_steps
    )
    return paths.stack()
