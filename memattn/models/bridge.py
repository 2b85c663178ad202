"""Bridges, which make the decoder's initial state from the encoder's final states."""

import tensorflow as tf

from memattn.attention.configured import ConfiguredLayer
from memattn.attention.initializers import Initializer

Cells = list[tuple[tf.Tensor, ...]]
"""The state of each decoder layer: h and c of an LSTM, h of a GRU, [B, U]."""


class _Bridge(ConfiguredLayer):
    """Base of all bridges.

    Args:
      layers, units: number and width of the decoder's layers.
      parts: number of tensors in the state of a decoder layer: 2 for an LSTM, 1 for a GRU.
    """

    def __init__(self, *, layers: int, units: int, parts: int = 2, **kwargs):
        super().__init__(**kwargs)
        self.layers, self.units, self.parts = layers, units, parts

    def build(self, input_shape):
        self.built = True


@tf.keras.utils.register_keras_serializable("memattn")
class ZeroBridge(_Bridge):
    """Starts the decoder from zeros, so that the decoder knows the source through attention alone."""

    def call(self, final_state: tf.Tensor) -> Cells:
        """Returns the initial state for final encoder states [B, F]."""
        zeros = tf.zeros([tf.shape(final_state)[0], self.units], final_state.dtype)
        return [(zeros,) * self.parts] * self.layers


@tf.keras.utils.register_keras_serializable("memattn")
class DenseBridge(_Bridge):
    """Starts the decoder from a dense layer over the encoder's final states.

    Args:
      initializer: name, config or object, of the dense layer's kernel.
      **kwargs: see `_Bridge`.
    """

    def __init__(self, *, initializer: Initializer = "glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.initializer = initializer
        self.dense = tf.keras.layers.Dense(
            self.parts * self.layers * self.units,
            kernel_initializer=initializer,
            dtype=self.dtype_policy,
            name="dense",
        )

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.built = True

    def call(self, final_state: tf.Tensor) -> Cells:
        """Returns the initial state for final encoder states [B, F]."""
        tensors = tf.split(self.dense(final_state), self.parts * self.layers, -1)
        return [tuple(tensors[i : i + self.parts]) for i in range(0, len(tensors), self.parts)]


@tf.keras.utils.register_keras_serializable("memattn")
class BackwardBridge(_Bridge):
    """Starts the decoder from tanh(W_s h), where h is the backward encoder's state at the first token.

    This is the bridge of Bahdanau et al. (2015), for encoders of one layer. The c of an LSTM starts from zeros.

    Args:
      encoder_units: width of h.
      initializer: name, config or object, of W_s.
      **kwargs: see `_Bridge`.
    """

    def __init__(self, *, encoder_units: int, initializer: Initializer = "glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.encoder_units, self.initializer = encoder_units, initializer
        self.dense = tf.keras.layers.Dense(
            self.units, activation="tanh", kernel_initializer=initializer, dtype=self.dtype_policy, name="dense"
        )

    def build(self, input_shape):
        self.dense.build((None, self.encoder_units))
        self.built = True

    def call(self, final_state: tf.Tensor) -> Cells:
        """Returns the initial state for final encoder states [B, F], whose second half is the backward encoder's."""
        backward = final_state[:, final_state.shape[1] // 2 :]
        hidden = self.dense(backward[:, : self.encoder_units])
        return [(hidden, *[tf.zeros_like(hidden)] * (self.parts - 1))] * self.layers
