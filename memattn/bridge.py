"""Bridges: from the encoder's final states to the decoder's initial state."""

import tensorflow as tf


@tf.keras.utils.register_keras_serializable("memattn")
class ZeroBridge(tf.keras.layers.Layer):
    """Starts the decoder from zeros: what it knows of the source, it reads by attention.

    Args:
      layers, units: of the decoder.
    """

    def __init__(self, *, layers: int, units: int, **kwargs):
        super().__init__(**kwargs)
        self.layers, self.units = layers, units

    def call(self, final_state: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """(h, c) of each decoder layer, each [B, units], for final encoder states [B, F]."""
        zeros = tf.zeros([tf.shape(final_state)[0], self.units], final_state.dtype)
        return [(zeros, zeros)] * self.layers

    def get_config(self):
        return {**super().get_config(), "layers": self.layers, "units": self.units}


@tf.keras.utils.register_keras_serializable("memattn")
class DenseBridge(tf.keras.layers.Layer):
    """Starts the decoder from a dense layer on the encoder's final states.

    Args:
      layers, units: of the decoder.
      initializer: name or config, of the dense layer's kernel.
    """

    def __init__(self, *, layers: int, units: int, initializer: str | dict = "glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.layers, self.units = layers, units
        self.initializer = initializer
        self.dense = tf.keras.layers.Dense(2 * layers * units, kernel_initializer=initializer, name="dense")

    def call(self, final_state: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """(h, c) of each decoder layer, each [B, units], for final encoder states [B, F]."""
        parts = tf.split(self.dense(final_state), 2 * self.layers, -1)
        return list(zip(parts[::2], parts[1::2], strict=True))

    def get_config(self):
        return {
            **super().get_config(),
            "layers": self.layers,
            "units": self.units,
            "initializer": self.initializer,
        }
