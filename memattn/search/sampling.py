"""Samples hypotheses from any step function, in the graph."""

import numbers
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from memattn.search.beam_search import (
    Hypotheses,
    check_ngram_size,
    extended,
    length_penalty,
    no_history,
    repeated,
    without,
)


def sample(
    step: Callable[[tf.Tensor, Any], tuple[tf.Tensor, Any]],
    state: Any,
    *,
    uniforms: tf.Tensor,
    max_lengths: tf.Tensor,
    start: int,
    end: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    length_penalty_weight: float = 0.0,
    no_repeat_ngram_size: int = 0,
) -> Hypotheses:
    """Draws n hypotheses of each source, independent of each other; returns them by score, best first.

    Their scores are the model's own log-probabilities, whatever the temperature and the choice of tokens. A hypothesis
    ends without a result where all logits are -inf or one of them is NaN: its score is -inf, its length 0.

    Args:
      step: (tokens [B, n], state) -> logits [B, n, V] of the next token, next state.
      state: nested tensors [B, n, ...].
      uniforms: [steps, B, n] in [0, 1), one random number for each token that is drawn; at least one step.
      max_lengths: [B], the most steps for each source (its end of sentence included).
      start, end: ids of the first input and of the end of sentence.
      temperature: logits are divided by it; at least 1e-6.
      top_k: draw from the k most probable tokens; None: from all.
      top_p: draw from the most probable tokens that together have this probability (Holtzman et al., 2020); None: from
        all.
      length_penalty_weight: a of `length_penalty`.
      no_repeat_ngram_size: a hypothesis never has the same so many tokens in a row twice; 0: it may.

    Raises ValueError for a temperature, top_k or top_p out of its range, and for uniforms of another shape.
    """
    if not 1e-6 <= temperature < 1e30:
        raise ValueError(f"temperature: must be at least 1e-6 and below 1e30, not {temperature}")
    if top_k is not None and not (isinstance(top_k, numbers.Integral) and top_k >= 1):
        raise ValueError(f"top_k: must be a whole number of at least 1, or None, not {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p: must be above 0 and at most 1, or None, not {top_p}")
    check_ngram_size(no_repeat_ngram_size)
    uniforms = tf.convert_to_tensor(uniforms)
    if len(uniforms.shape) != 3 or 0 in uniforms.shape[::2]:
        raise ValueError(f"uniforms: must be [steps, B, n], neither steps nor n 0, not of shape {uniforms.shape}")
    steps, samples = tf.shape(uniforms)[0], uniforms.shape[2]
    max_lengths = tf.cast(tf.convert_to_tensor(max_lengths), tf.int32)
    batch = tf.shape(max_lengths)[0]
    zeros = tf.zeros([batch, samples], tf.int32)
    finished = tf.tile((max_lengths <= 0)[:, None], [1, samples])
    # A graph cannot stack an array of which it has seen no element.
    all_tokens = tf.TensorArray(tf.int32, steps, element_shape=[max_lengths.shape[0], samples]).write(0, zeros)
    if no_repeat_ngram_size:
        state = {"step": state, "history": no_history(batch, samples, steps)}
    initial = (0, zeros + start, tf.cast(zeros, tf.float32), zeros, finished, state, all_tokens)

    def unfinished(time, tokens, log_probs, lengths, finished, *_):
        return ~tf.reduce_all(finished)

    def advance(time, tokens, log_probs, lengths, finished, state, all_tokens):
        if no_repeat_ngram_size:
            history = extended(state["history"], tokens, time)
            logits, inner = step(tokens, state["step"])
            logits, state = tf.cast(logits, tf.float32), {"step": inner, "history": history}
            allowed = without(logits, *repeated(history, time, no_repeat_ngram_size))
        else:
            logits, state = step(tokens, state)
            allowed = logits = tf.cast(logits, tf.float32)
        drawn = draw(allowed, uniforms[time], temperature=temperature, top_k=top_k, top_p=top_p)
        tokens = tf.where(finished, end, drawn)
        taken = tf.gather(tf.nn.log_softmax(logits), drawn, batch_dims=2)
        if no_repeat_ngram_size:
            taken = tf.where(tf.gather(allowed, drawn, batch_dims=2) > -float("inf"), taken, -float("inf"))
        alive = taken > -float("inf")  # nor NaN
        log_probs += tf.where(finished, 0.0, tf.where(alive, taken, -float("inf")))
        lengths += tf.cast(tokens != end, tf.int32)
        finished |= (tokens == end) | (time + 1 >= max_lengths)[:, None] | ~alive
        return time + 1, tokens, log_probs, lengths, finished, state, all_tokens.write(time, tokens)

    _, _, log_probs, lengths, _, _, all_tokens = tf.while_loop(unfinished, advance, initial, maximum_iterations=steps)
    lengths = tf.where(log_probs > -float("inf"), lengths, 0)
    tokens = tf.transpose(all_tokens.stack(), [1, 2, 0])  # [B, n, steps]
    tokens = tf.where(tf.range(steps) >= lengths[:, :, None], end, tokens)
    scores = log_probs / length_penalty(lengths, length_penalty_weight)
    best_first = tf.argsort(scores, direction="DESCENDING", stable=True)
    return Hypotheses(*(tf.gather(values, best_first, batch_dims=1) for values in (tokens, lengths, scores)))


def draw(
    logits: tf.Tensor, uniforms: tf.Tensor, *, temperature: float, top_k: int | None, top_p: float | None
) -> tf.Tensor:
    """Tokens [B, n] of logits [B, n, V]: the inverse of the cumulative distribution at `uniforms` [B, n]."""
    logits, ids = logits / temperature, None
    if top_k or top_p:
        logits, ids = tf.math.top_k(logits, min(top_k or logits.shape[-1], logits.shape[-1]))  # most probable first
    probabilities = tf.nn.softmax(logits)
    if top_p:
        likelier = tf.cumsum(probabilities, -1, exclusive=True)
        probabilities = tf.where(likelier < top_p, probabilities, 0.0)
    cumulative = tf.cumsum(probabilities, -1)
    total = cumulative[:, :, -1:]

    def below(bound):
        return tf.reduce_sum(tf.cast(bound, tf.int32), -1)

    place = below(cumulative <= uniforms[:, :, None] * total)
    place = tf.minimum(place, below(cumulative < total))  # a rounded product may reach the total
    return place if ids is None else tf.gather(ids, place, batch_dims=2)
