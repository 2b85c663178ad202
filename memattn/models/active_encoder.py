"""An encoder whose states are an active memory, for attention to read."""

import tensorflow as tf

from memattn.models.dropout import dropout
from memattn.models.encoder import BaseEncoder
from memattn.models.neural_gpu.cells import CELLS
from memattn.models.neural_gpu.steps import run_steps

# A step keeps 1.2 sigmoid(2) - 0.1 = 96% of the memory at first. With the Neural GPU's bias of 1, it keeps 78%, and
# after as many steps as a source has positions hardly a trace of a token is left at its position.
_UPDATE_BIAS = 2.0


@tf.keras.utils.register_keras_serializable("memattn")
class ActiveMemoryEncoder(BaseEncoder):
    """Reads a source into a memory of one column, and changes it as many times as the source has positions.

    The states are the positions of the last memory. In the Neural GPU (Kaiser & Bengio, 2016), the output layer reads
    them; here, the decoder's attention does. The final state is their mean, without padding. The memory starts from a
    dense layer on the inputs with layer normalization, as in the authors' code.

    Args:
      layers: number of cells, which change the memory one after the other at each step.
      units: half the number of maps.
      cell: "cgru", the convolutional GRU.
      dropout: rate on the first memory, once per source; the cells have none, as a step's dropout adds up over n steps.
      initializer: name, config or object, of the kernel of the dense layer on the inputs; the cells have their own.
    """

    def __init__(self, *, layers: int, units: int, cell: str = "cgru", dropout: float = 0.0, **kwargs):
        super().__init__(layers=layers, units=units, cell=cell, dropout=dropout, **kwargs)
        options = {"maps": 2 * units, "width": 1, "update_bias": _UPDATE_BIAS, "dtype": self.dtype_policy}
        self.input_layer = tf.keras.layers.Dense(
            2 * units, kernel_initializer=self.initializer, dtype=self.dtype_policy, name="input"
        )
        self.norm = tf.keras.layers.LayerNormalization(epsilon=1e-5, dtype=self.dtype_policy, name="norm")
        self.cells = [CELLS[cell](name=f"cell_{i}", **options) for i in range(layers)]

    def build(self, input_shape):
        self.input_layer.build(input_shape)
        self.norm.build((None, None, 2 * self.units))
        for cell in self.cells:
            cell.build((None, None, 1, 2 * self.units))
        self.built = True

    def compute_output_shape(self, input_shape):
        batch, length, _ = input_shape
        return (batch, length, 2 * self.units), (batch, 2 * self.units)

    def call(self, inputs, mask, seed=None, jit_compile=False):
        del jit_compile
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), 1)
        maps = dropout(self.norm(self.input_layer(inputs)), self.dropout, seed)
        maps = tf.where(mask[:, :, None], maps, tf.zeros_like(maps))
        states = run_steps(self.cells, maps[:, :, None], lengths)[:, :, 0]
        counts = tf.cast(tf.maximum(lengths, 1), states.dtype)
        return states, tf.reduce_sum(states, 1) / counts[:, None]
