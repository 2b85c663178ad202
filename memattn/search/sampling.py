"""Sampling from any step function, in the graph."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from memattn.search.beam_search import length_penalty
from memattn.search.repeated_ngrams import extend_history, forbid_tokens, repeating_tokens
from memattn.search.translation import Hypotheses


class _Samples(NamedTuple):
    """State of n hypotheses of each source after `time` steps."""

    time: tf.Tensor | int
    tokens: tf.Tensor  # [B, n], the last tokens
    log_probs: tf.Tensor  # [B, n], summed over the tokens; -inf for a hypothesis that was dropped
    lengths: tf.Tensor  # [B, n], tokens without the end of sentence
    finished: tf.Tensor  # [B, n], whether a hypothesis ended, reached its maximum length or was dropped
    state: Any  # next state of the step function, tensors [B, n, ...]
    history: tf.Tensor | tuple  # see `repeated_ngrams`; () if n-grams may be repeated
    all_tokens: tf.TensorArray  # the tokens [B, n] of each step


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
    """Draws n hypotheses of each source, independently of each other; returns them by score, best first.

    Scores are the model's log-probabilities over the length penalty, whatever the temperature, top_k and top_p. A
    hypothesis is dropped if all logits are -inf, or one of them is NaN: its score is -inf and its length 0.

    Args:
      step: (tokens [B, n], state) -> logits [B, n, V] of the next token, next state.
      state: nested tensors [B, n, ...].
      uniforms: [steps, B, n] in [0, 1), a random number for each token that is drawn; at least one step.
      max_lengths: [B], upper bound on the steps of each source, its end of sentence included.
      start, end: ids of the first input and of the end of sentence.
      temperature: logits are divided by it; at least 1e-6.
      top_k: draw from the k most probable tokens; None: from all.
      top_p: draw from the most probable tokens whose sum has this probability (Holtzman et al., 2020); None: from
        all.
      length_penalty_weight: a of `length_penalty`.
      no_repeat_ngram_size: length of the n-grams that a hypothesis never has twice; 0: it may repeat any.

    Raises ValueError for arguments out of their ranges.

    Example:
      >>> import memattn
      >>> import tensorflow as tf
      >>> table = tf.math.log([[0.0, 0.6, 0.4], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])  # 2 ends an output
      >>> step = lambda tokens, state: (tf.gather(table, tokens), state)
      >>> uniforms = tf.random.stateless_uniform([4, 1, 3], seed=[1, 2])  # steps, sources, samples
      >>> hypotheses = memattn.sample(step, (), uniforms=uniforms, max_lengths=[4], start=0, end=2)
      >>> hypotheses.tokens.shape[:2]
      TensorShape([1, 3])
    """
    if temperature < 1e-6 or (top_k is not None and top_k < 1) or not 0 < (1.0 if top_p is None else top_p) <= 1:
        problem = "temperature must be at least 1e-6, top_k at least 1, top_p above 0 and at most 1"
        raise ValueError(f"{problem}, not {temperature}, {top_k} and {top_p}")
    uniforms = tf.cast(tf.convert_to_tensor(uniforms), tf.float32)
    start, end = tf.cast(start, tf.int32), tf.cast(end, tf.int32)
    steps, n = tf.shape(uniforms)[0], uniforms.shape[2]
    max_lengths = tf.cast(tf.convert_to_tensor(max_lengths), tf.int32)
    batch = tf.shape(max_lengths)[0]
    zeros = tf.zeros([batch, n], tf.int32)
    all_tokens = tf.TensorArray(tf.int32, steps, element_shape=[max_lengths.shape[0], n])
    first = _Samples(
        time=0,
        tokens=zeros + start,
        log_probs=tf.cast(zeros, tf.float32),
        lengths=zeros,
        finished=tf.tile((max_lengths <= 0)[:, None], [1, n]),
        state=state,
        history=tf.fill([batch, n, steps], -1) if no_repeat_ngram_size else (),
        all_tokens=all_tokens.write(0, zeros),  # a graph cannot stack an array of which it has seen no element
    )

    def unfinished(samples: _Samples):
        return ~tf.reduce_all(samples.finished)

    def advance(samples: _Samples) -> tuple[_Samples]:
        time, history = samples.time, samples.history
        logits, state = step(samples.tokens, samples.state)
        logits = allowed = tf.cast(logits, tf.float32)
        if no_repeat_ngram_size:
            history = extend_history(history, samples.tokens, time)
            allowed = forbid_tokens(logits, *repeating_tokens(history, time, no_repeat_ngram_size))
        new_tokens = draw(allowed, uniforms[time], temperature=temperature, top_k=top_k, top_p=top_p)
        log_probs = tf.gather(tf.nn.log_softmax(logits), new_tokens, batch_dims=2)
        if no_repeat_ngram_size:
            is_allowed = tf.gather(allowed, new_tokens, batch_dims=2) > -float("inf")
            log_probs = tf.where(is_allowed, log_probs, -float("inf"))
        is_kept = log_probs > -float("inf")  # false for NaN, too
        tokens = tf.where(samples.finished, end, new_tokens)
        addends = tf.where(samples.finished, 0.0, tf.where(is_kept, log_probs, -float("inf")))
        return (
            _Samples(
                time=time + 1,
                tokens=tokens,
                log_probs=samples.log_probs + addends,
                lengths=samples.lengths + tf.cast(tokens != end, tf.int32),
                finished=samples.finished | (tokens == end) | (time + 1 >= max_lengths)[:, None] | ~is_kept,
                state=state,
                history=history,
                all_tokens=samples.all_tokens.write(time, tokens),
            ),
        )

    (samples,) = tf.while_loop(unfinished, advance, (first,), maximum_iterations=steps)
    lengths = tf.where(samples.log_probs > -float("inf"), samples.lengths, 0)
    tokens = tf.transpose(samples.all_tokens.stack(), [1, 2, 0])  # [B, n, steps]
    tokens = tf.where(tf.range(steps) >= lengths[:, :, None], end, tokens)
    scores = samples.log_probs / length_penalty(lengths, length_penalty_weight)
    best_first = tf.argsort(scores, direction="DESCENDING", stable=True)
    return Hypotheses(*(tf.gather(values, best_first, batch_dims=1) for values in (tokens, lengths, scores)))


def draw(
    logits: tf.Tensor, uniforms: tf.Tensor, *, temperature: float, top_k: int | None, top_p: float | None
) -> tf.Tensor:
    """Draws tokens [B, n] from logits [B, n, V], where the cumulative distribution passes `uniforms` [B, n]."""
    logits, ids = logits / temperature, None
    if top_k or top_p:
        logits, ids = tf.math.top_k(logits, min(top_k or logits.shape[-1], logits.shape[-1]))  # most probable first
    probabilities = tf.nn.softmax(logits)
    if top_p:
        more_probable = tf.cumsum(probabilities, -1, exclusive=True)
        probabilities = tf.where(more_probable < top_p, probabilities, 0.0)
    # XLA adds in an order that makes sums differ by rounding even where the probability is 0.
    cumulative = tf.where(probabilities > 0, tf.cumsum(probabilities, -1), 0.0)
    total = tf.reduce_max(cumulative, -1, keepdims=True)
    passes = (cumulative > uniforms[:, :, None] * total) | (cumulative == total)  # a rounded product may be the total
    positions = tf.range(tf.shape(passes)[-1])
    rank = tf.reduce_min(tf.where(passes, positions, positions[-1]), -1)  # the first that passes
    return rank if ids is None else tf.gather(ids, rank, batch_dims=2)
