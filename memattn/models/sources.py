"""Source readers: layers that turn a padded batch of sources into the encoder's inputs and their mask."""

import tensorflow as tf

from memattn.attention.configured import ConfiguredLayer
from memattn.data.vocabulary import PAD
from memattn.models.dropout import split_seed

_LARGEST_TIME_MASK = 0.2  # share of a source that a mask of time may cover
_LARGEST_BAND = 1 / 3  # share of the values of a vector that a mask of frequency may cover


@tf.keras.utils.register_keras_serializable("memattn")
class TokenReader(tf.keras.layers.Embedding):
    """Embeds token ids [B, S], padded with PAD."""

    def call(self, source: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns embeddings [B, S, E]. `seed` concerns other readers."""
        del seed
        return super().call(source)

    def mask(self, source: tf.Tensor) -> tf.Tensor:
        """Returns a mask [B, S], false for padding."""
        return tf.not_equal(source, PAD)

    def lengthened(self, source: tf.Tensor, positions: int | tf.Tensor) -> tf.Tensor:
        """Returns the sources with `positions` further positions of padding."""
        return tf.pad(source, [[0, 0], [0, positions]], constant_values=PAD)


@tf.keras.utils.register_keras_serializable("memattn")
class FeatureReader(ConfiguredLayer):
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

    def lengthened(self, source: tf.Tensor, positions: int | tf.Tensor) -> tf.Tensor:
        """Returns the sources with `positions` further positions of padding."""
        return tf.pad(source, [[0, 0], [0, positions], [0, 0]], constant_values=float("nan"))


def _covered(size: int | tf.Tensor, lengths: tf.Tensor, share: float, number: int, seed: tf.Tensor) -> tf.Tensor:
    """Returns which of `size` places [B, size] are covered by `number` random stretches of up to `share` of a length.

    `lengths` [B] are floats. A stretch may be empty, and lies within the first `lengths` places.
    """
    width_share, start_share = tf.unstack(tf.random.stateless_uniform([2, number, tf.shape(lengths)[0]], seed))
    widths = tf.floor(width_share * (tf.floor(share * lengths) + 1))
    starts = tf.floor(start_share * (lengths - widths + 1))
    places = tf.range(tf.cast(size, tf.float32))
    inside = (places >= starts[:, :, None]) & (places < (starts + widths)[:, :, None])
    return tf.reduce_any(inside, 0)
