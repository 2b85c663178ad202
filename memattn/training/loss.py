"""Losses: sums over the target tokens of a batch, computed from the logits of a model.

To add a loss, write a function with the arguments of `cross_entropy` and enter it in LOSSES: `training.loss` then knows
its name. `step.py` divides the sums by the number of target tokens.
"""

from typing import NamedTuple

import tensorflow as tf


class Loss(NamedTuple):
    """Sums over the target tokens of a batch, scalars.

    Attributes:
      objective: quantity that an update minimizes.
      cross_entropy: negative log-probability of the targets, which training reports whatever it minimizes.
    """

    objective: tf.Tensor
    cross_entropy: tf.Tensor


def cross_entropy(logits: tf.Tensor, targets: tf.Tensor, mask: tf.Tensor, *, label_smoothing: float = 0.0) -> Loss:
    """Returns the sum of -(1 - e) log p(y) - e / V sum_v log p(v) over all target tokens y.

    Args:
      logits: [B, T, V], in float32.
      targets: ids [B, T].
      mask: [B, T], False at padding.
      label_smoothing: e, the probability that is spread over the vocabulary (Szegedy et al., 2016).
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)  # [B, T], -log p(y)
    plain = tf.reduce_sum(tf.where(mask, losses, 0.0))
    if not label_smoothing:
        return Loss(plain, plain)
    log_totals = losses + tf.gather(logits, targets, batch_dims=2)  # log sum exp, computed once
    uniform = tf.reduce_sum(tf.where(mask, log_totals - tf.reduce_mean(logits, -1), 0.0))
    return Loss(plain + label_smoothing * (uniform - plain), plain)


def context_distance(contexts: tf.Tensor, teacher_contexts: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the mean squared difference between contexts [B, T, D] of student and teacher, summed over tokens.

    `mask` [B, T] is False at padding.
    """
    distances = tf.reduce_mean(
        tf.math.squared_difference(tf.cast(contexts, tf.float32), teacher_contexts), -1
    )  # [B, T]
    return tf.reduce_sum(tf.where(mask, distances, 0.0))


LOSSES = {"cross_entropy": cross_entropy}  # by the names in training.loss
