"""Both ends of a model: what turns sources and previous outputs into its inputs, and its features into logits."""

from typing import NamedTuple

import tensorflow as tf

from memattn.attention.ops import cast, sum_dtype
from memattn.data.lexicon import Selection
from memattn.data.vocabulary import BOS, PAD
from memattn.models.dropout import split_seed

_LARGEST_TIME_MASK = 0.2  # fraction of a source that a mask of time may cover
_LARGEST_BAND = 1 / 3  # fraction of the values of a vector that a mask of frequency may cover


class TokenReader(tf.keras.layers.Embedding):
    """Embeds token ids [B, S], padded with PAD."""

    def call(self, source: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns embeddings [B, S, E]. `seed` concerns other readers."""
        return super().call(source)

    def mask(self, source: tf.Tensor) -> tf.Tensor:
        """Returns a mask [B, S], false for padding."""
        return tf.not_equal(source, PAD)


class FeatureReader(tf.keras.layers.Layer):
    """Passes on vectors [B, S, F], and replaces their padding, which is NaN, by zeros.

    Args:
      output_dim: F.
      spec_augment: number of masks of time, and of masks of frequency, in each source of a training batch (SpecAugment,
        Park et al., 2019). A mask covers a random stretch of up to a fifth of the source, or of up to a third of the
        values in every vector. What is covered is 0, the mean of normalized features.
    """

    def __init__(self, output_dim: int, *, spec_augment: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.output_dim, self.spec_augment = output_dim, spec_augment

    def call(self, source: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the encoder's inputs [B, S, F]; `seed` [2] draws the masks of training."""
        covered = tf.math.is_nan(source)
        if seed is not None and self.spec_augment:
            lengths = tf.reduce_sum(tf.cast(self.mask(source), tf.float32), 1)
            values = tf.fill(tf.shape(lengths), float(self.output_dim))
            time_seed, band_seed = split_seed(seed, 2)
            time = _covered(tf.shape(source)[1], lengths, _LARGEST_TIME_MASK, self.spec_augment, time_seed)
            bands = _covered(self.output_dim, values, _LARGEST_BAND, self.spec_augment, band_seed)
            covered |= time[:, :, None] | bands[:, None]
        return tf.where(covered, tf.zeros_like(source), source)

    def mask(self, source: tf.Tensor) -> tf.Tensor:
        """Returns a mask [B, S], false for padding."""
        return ~tf.math.is_nan(source[:, :, 0])


def _covered(size: int | tf.Tensor, lengths: tf.Tensor, fraction: float, number: int, seed: tf.Tensor) -> tf.Tensor:
    """Returns which of `size` positions [B, size] are covered by `number` random stretches.

    A stretch is up to `fraction` of a length long, and may be empty. It lies within the first `lengths` [B] positions,
    which are floats.
    """
    for_width, for_start = tf.unstack(tf.random.stateless_uniform([2, number, tf.shape(lengths)[0]], seed))
    widths = tf.floor(for_width * (tf.floor(fraction * lengths) + 1))
    starts = tf.floor(for_start * (lengths - widths + 1))
    positions = tf.range(tf.cast(size, tf.float32))
    inside = (positions >= starts[:, :, None]) & (positions < (starts + widths)[:, :, None])
    return tf.reduce_any(inside, 0)


def shift_right(target: tf.Tensor) -> tf.Tensor:
    """Returns what a decoder reads of targets [B, T] under teacher forcing: BOS, then all tokens but the last."""
    return tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BOS)


class OutputWeights(NamedTuple):
    """Weights of an output layer, for all V tokens or for N selected ones."""

    kernel: tf.Tensor  # [F, V or N]
    bias: tf.Tensor  # [V or N], in float32 for half precision, so that its gradient is summed in float32
    allowed: tf.Tensor | None = None  # bool [B, N], which of the selected tokens each source allows; None for all V

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
