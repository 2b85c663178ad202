"""Scores that are 0 except at few source positions, and contexts read by them."""

from typing import NamedTuple

import tensorflow as tf


class SparseScores(NamedTuple):
    """Scores of N source positions for each query; all other positions have the score 0.

    Attributes:
      positions: int [B, Q, N]; a position may be repeated.
      weights: their scores [B, Q, N].
    """

    positions: tf.Tensor
    weights: tf.Tensor


def contexts(scores: tf.Tensor | SparseScores, values: tf.Tensor) -> tf.Tensor:
    """Returns the contexts scores @ values [B, Q, D] (Eqs. 1 and 6) for scores [B, Q, M] and values [B, M, D]."""
    if isinstance(scores, SparseScores):
        rows = tf.gather(values, scores.positions, batch_dims=1)  # [B, Q, N, D]
        return tf.reduce_sum(scores.weights[..., None] * rows, 2)
    return tf.matmul(scores, values)


def dense(scores: tf.Tensor | SparseScores, length: int | tf.Tensor) -> tf.Tensor:
    """Returns scores as a tensor [B, Q, length]; weights of a repeated position are added."""
    if not isinstance(scores, SparseScores):
        return scores
    places = tf.one_hot(scores.positions, length, dtype=scores.weights.dtype)  # [B, Q, N, length]
    return tf.reduce_sum(places * scores.weights[..., None], 2)
