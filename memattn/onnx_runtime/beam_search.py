"""Beam search over any step function, in NumPy; its results are those of `memattn.search.beam_search`."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from memattn.data.vocabulary import BOS, EOS
from memattn.search.translation import Hypotheses

State = Mapping[str, np.ndarray]


def length_penalty(lengths: np.ndarray, weight: float) -> np.ndarray:
    """Returns ((5 + length) / 6) ^ weight of Wu et al. (2016)."""
    return ((5 + lengths.astype(np.float32)) / 6) ** np.float32(weight)


def beam_search(
    step: Callable[[np.ndarray, Any], tuple[np.ndarray, np.ndarray, State]],
    state: State,
    *,
    beam_size: int,
    max_lengths: np.ndarray,
    n_best: int,
    length_penalty_weight: float,
) -> Hypotheses:
    """Returns the n best hypotheses of each source.

    A finished hypothesis stays on the beam until k hypotheses are better. A hypothesis that reaches its maximum length
    is kept without an end of sentence. The search stops once no unfinished hypothesis can enter the n best of its
    source.

    Args:
      step: (tokens [B, k], state) -> the most probable next tokens [B, k, C], at least k + 1 of them if there are so
        many, their log-probabilities, and the next state.
      state: tensors [B, 1, ...].
      beam_size: k, the number of hypotheses of each source.
      max_lengths: [B], upper bound on the steps of each source, its end of sentence included.
      n_best: n, at most k.
      length_penalty_weight: weight of `length_penalty`.
    """
    batch, sources = len(max_lengths), np.arange(len(max_lengths))[:, None]
    state = {name: np.repeat(tensor, beam_size, 1) for name, tensor in state.items()}
    tokens = np.full([batch, beam_size], BOS, np.int32)
    paths = np.full([batch, beam_size, max(max_lengths, default=0)], EOS, np.int32)
    log_probs = np.full([batch, beam_size], -np.inf, np.float32)
    log_probs[:, 0] = 0  # a single hypothesis of each source
    lengths: np.ndarray = np.zeros([batch, beam_size], np.int32)
    finished = np.repeat(max_lengths[:, None] <= 0, beam_size, 1)
    penalties = length_penalty(np.arange(paths.shape[2] + 1), length_penalty_weight)
    largest_penalty = length_penalty(max_lengths, length_penalty_weight)[:, None]
    for time in range(paths.shape[2]):
        next_tokens, next_log_probs, state = step(tokens, state)
        number = next_tokens.shape[2]
        next_log_probs = np.fmax(next_log_probs, -np.inf)  # NaN drops the hypothesis
        if finished.any():  # a finished hypothesis has one continuation, by another end of sentence
            only_first = np.where(np.arange(number) == 0, 0, -np.inf).astype(np.float32)
            next_tokens = np.where(finished[:, :, None], EOS, next_tokens)
            next_log_probs = np.where(finished[:, :, None], only_first, next_log_probs)
        totals = log_probs[:, :, None] + next_log_probs
        next_lengths = lengths[:, :, None] + (next_tokens != EOS)
        scores = totals / penalties.take(next_lengths)
        best = np.argsort(-scores.reshape(batch, -1), axis=1, kind="stable")[:, :beam_size]
        best = best + beam_size * number * sources  # indices of [B, k, C] in a row, as `take` wants them
        parents = best // number
        scores, tokens = scores.take(best), next_tokens.take(best)
        log_probs, lengths = totals.take(best), next_lengths.take(best)
        if beam_size > 1:  # a single hypothesis continues itself
            state = {name: _of_parents(tensor, parents) for name, tensor in state.items()}
            paths = _of_parents(paths, parents)
        paths[:, :, time] = tokens
        finished = finished.take(parents) | (tokens == EOS) | (time + 1 >= max_lengths[:, None])
        if not finished.any():
            continue
        # Log-probabilities can only fall, so these are upper bounds on the scores that unfinished hypotheses can reach.
        bounds = np.where(finished, -np.inf, log_probs / largest_penalty)
        nth = np.where(finished, scores, -np.inf)[:, n_best - 1 : n_best]
        if not ((bounds[:, :n_best] > -np.inf).any() or (bounds > nth).any()):
            break
    scores = (log_probs / length_penalty(lengths, length_penalty_weight))[:, :n_best]
    lengths = np.where(scores > -np.inf, lengths[:, :n_best], 0)
    within = np.arange(paths.shape[2]) < lengths[:, :, None]
    return Hypotheses(np.where(within, paths[:, :n_best], EOS), lengths, scores)


def _of_parents(tensor: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Returns the entries of a tensor [B, k, ...] at indices [B, k] of its hypotheses in a row."""
    return tensor.reshape(-1, *tensor.shape[2:]).take(parents, 0)
