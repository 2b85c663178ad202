"""The bridge, which makes the decoder's initial state from the encoder's final state."""

import tensorflow as tf

from memattn.attention.configured import ConfiguredLayer
from memattn.attention.initializers import Initializer
from memattn.models.attentive_decoder import Cells


@tf.keras.utils.register_keras_serializable("memattn")
class Bridge(ConfiguredLayer):
    """Makes the initial state of a decoder's layers.

    Args:
      kind: "zero": zeros, so that the decoder knows the source through attention alone; "dense": a dense layer on the
        final state; "backward": tanh(W_s h), where h is the backward encoder's state at the first token, for encoders
        of one layer (Bahdanau et al., 2015). With "backward", the c of an LSTM starts from zeros.
      layers, units: number and width of the decoder's layers.
      parts: number of tensors in the state of a decoder layer: 2 for an LSTM, 1 for a GRU.
      encoder_units: width of h, for "backward".
      initializer: name, config or object, of the kernel.
    """

    def __init__(
        self,
        kind: str,
        *,
        layers: int,
        units: int,
        parts: int = 2,
        encoder_units: int | None = None,
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.kind, self.layers, self.units, self.parts = kind, layers, units, parts
        self.encoder_units, self.initializer = encoder_units, initializer
        if kind != "zero":
            self.dense = tf.keras.layers.Dense(
                units if kind == "backward" else parts * layers * units,
                activation="tanh" if kind == "backward" else None,
                kernel_initializer=initializer,
                dtype=self.dtype_policy,
                name="dense",
            )

    def build(self, input_shape):
        if self.kind == "dense":
            self.dense.build(input_shape)
        elif self.kind == "backward":
            self.dense.build((None, self.encoder_units))
        self.built = True

    def call(self, final_state: tf.Tensor) -> Cells:
        """Returns the initial state for final encoder states [B, F], whose second half is the backward encoder's."""
        if self.kind == "zero":
            zeros = tf.zeros([tf.shape(final_state)[0], self.units], final_state.dtype)
            return [(zeros,) * self.parts] * self.layers
        if self.kind == "dense":
            tensors = tf.split(self.dense(final_state), self.parts * self.layers, -1)
            return [tuple(tensors[i : i + self.parts]) for i in range(0, len(tensors), self.parts)]
        backward = final_state[:, final_state.shape[1] // 2 :]
        hidden = self.dense(backward[:, : self.encoder_units])
        return [(hidden, *[tf.zeros_like(hidden)] * (self.parts - 1))] * self.layers
