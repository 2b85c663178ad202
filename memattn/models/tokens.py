"""Tokens at both ends of a decoder: the ids that it reads under teacher forcing, and the logits that it gives."""

from typing import NamedTuple

import tensorflow as tf

from memattn.attention.ops import cast, sum_dtype
from memattn.data.lexicon import Selection
from memattn.data.vocabulary import BOS


def shift_right(target: tf.Tensor) -> tf.Tensor:
    """Returns what a decoder reads of targets [B, T] under teacher forcing: BOS, then all tokens but the last."""
    return tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BOS)


class OutputWeights(NamedTuple):
    """Weights of an output layer, for all V tokens or for N selected ones.

    Attributes:
      kernel: [F, V or N].
      bias: [V or N], in float32 for half precision, so that its gradient is summed in float32.
      allowed: bool [B, N], which of the selected tokens each source allows; None for all V tokens.
    """

    kernel: tf.Tensor
    bias: tf.Tensor
    allowed: tf.Tensor | None = None

    def logits(self, features: tf.Tensor) -> tf.Tensor:
        """Returns logits [B, Q, V or N] of features [B, Q, F]; minus infinity for tokens that a source forbids."""
        products = tf.tensordot(features, self.kernel, 1)
        logits = tf.cast(tf.cast(products, self.bias.dtype) + self.bias, products.dtype)
        return logits if self.allowed is None else tf.where(self.allowed[:, None], logits, -float("inf"))


def output_weights(
    kernel: tf.Tensor | tf.Variable, bias: tf.Tensor | tf.Variable, dtype: str, selected: Selection | None
) -> OutputWeights:
    """Returns the weights of an output layer that computes in `dtype`, for all tokens or for the selected ones."""
    weights = OutputWeights(cast(kernel, dtype), cast(bias, sum_dtype(dtype)))
    if selected is None:
        return weights
    ids, allowed = selected
    return OutputWeights(tf.gather(weights.kernel, ids, axis=1), tf.gather(weights.bias, ids), allowed)
