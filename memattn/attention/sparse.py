"""Scores that are 0 except at few source positions, and contexts read by them."""

from typing import NamedTuple

from memattn.attention import ops


class SparseScores(NamedTuple):
    """Scores of N source positions for each query; all other positions have the score 0.

    Attributes:
      positions: int [B, Q, N]; a position may be repeated.
      weights: their scores [B, Q, N].
    """

    positions: ops.Tensor
    weights: ops.Tensor


def contexts(scores: ops.Tensor | SparseScores, values: ops.Tensor) -> ops.Tensor:
    """Returns the contexts scores @ values [B, Q, D] (Eqs. 1 and 6) for scores [B, Q, M] and values [B, M, D]."""
    if isinstance(scores, SparseScores):
        rows = ops.gather(values, scores.positions)  # [B, Q, N, D]
        return ops.sum(scores.weights[..., None] * rows, 2)
    return ops.matmul(scores, values)


def dense(scores: ops.Tensor | SparseScores, length: int | ops.Tensor) -> ops.Tensor:
    """Returns scores as a tensor [B, Q, length]; weights of a repeated position are added."""
    if not isinstance(scores, SparseScores):
        return scores
    one_hot = ops.one_hot(scores.positions, length, dtype=scores.weights.dtype)  # [B, Q, N, length]
    return ops.sum(one_hot * scores.weights[..., None], 2)
