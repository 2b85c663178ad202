"""Encoders: their base, forward and backward stacks of LSTMs or GRUs, and active memory."""

import abc
import math
from typing import TYPE_CHECKING

import tensorflow as tf

from memattn.attention.configured import Initializer
from memattn.models.active_memory import ConvolutionalGRU, run_steps
from memattn.models.dropout import dropout, split_seed
from memattn.models.lstm import LSTM

if TYPE_CHECKING:
    from memattn.models.seq2seq import Seq2SeqConfig

# Recurrent layers by the values of `model.encoder`, with further options of their constructors.
RECURRENT_LAYERS: dict[str, tuple[type[tf.keras.layers.Layer], dict[str, bool]]] = {
    "lstm": (LSTM, {}),
    "gru": (tf.keras.layers.GRU, {"reset_after": False}),
}
# A step keeps 1.2 sigmoid(2) - 0.1 = 96% of the memory at first. With the Neural GPU's bias of 1, it keeps 78%, and
# after as many steps as a source has positions hardly a trace of a token is left at its position.
_UPDATE_BIAS = 2.0


class Encoder(tf.keras.layers.Layer):
    """Base of encoders, which read a source into states."""

    reduction = 1  # number of positions of a source that a state stands for
    final_size: int  # width F of the final state

    def __init__(self, config: "Seq2SeqConfig", *, initializer: Initializer, **kwargs):
        super().__init__(**kwargs)
        self.layers, self.units = config.layers_of_encoder, config.units_of_encoder  # a state is D = 2 * units wide
        self.dropout, self.initializer = config.dropout, initializer

    def state_mask(self, mask: tf.Tensor) -> tf.Tensor:
        """Returns the mask of the states [B, P] for the mask of the inputs [B, S], whose padding comes last."""
        return mask[:, :: self.reduction]

    @abc.abstractmethod
    def call(
        self, inputs: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor | None = None, jit_compile: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Encodes embeddings or vectors [B, S, E]; `mask` [B, S] is false for padding, which comes last.

        Returns the states [B, P, D], where P is S divided by `reduction` and rounded up, and the final state [B, F].
        `seed` [2] turns dropout on. With `jit_compile`, XLA compiles the loops of LSTMs on a CPU.
        """


class RecurrentEncoder(Encoder):
    """Reads a source into states, as google/seq2seq's BidirectionalRNNEncoder does.

    The final state is that of all layers, concatenated, forward layers first. F is 2 * layers * units for GRUs, and
    twice that for LSTMs: h and c of each layer. Biases start at 0, the forget gate's at 1.

    With `encoder_reduce`, each `encoder_reduce[i]` neighbouring outputs of layer i are joined into one; later layers
    join none. This is the pyramid of Listen, Attend and Spell (Chan et al., 2016), except that their layers read both
    directions of the layer below.
    """

    def __init__(self, config: "Seq2SeqConfig", **kwargs):
        super().__init__(config, **kwargs)
        self.cell, factors = config.encoder, config.encoder_reduce
        self.reduction = math.prod(factors)
        self.final_size = 2 * self.layers * self.units * (2 if self.cell == "lstm" else 1)
        self._factors = (*factors, *[1] * (self.layers - len(factors)))  # by layer
        self.forward = [self._layer(f"forward_{i}", False) for i in range(self.layers)]
        self.backward = [self._layer(f"backward_{i}", True) for i in range(self.layers)]

    def _layer(self, name: str, go_backwards: bool) -> tf.keras.layers.LSTM | tf.keras.layers.GRU:
        kind, options = RECURRENT_LAYERS[self.cell]
        return kind(
            self.units,
            kernel_initializer=self.initializer,
            recurrent_initializer=self.initializer,
            go_backwards=go_backwards,
            return_sequences=True,
            return_state=True,
            dtype=self.dtype_policy,
            name=name,
            **options,
        )

    def build(self, input_shape):
        for stack in (self.forward, self.backward):
            width = input_shape[-1]
            for layer, factor in zip(stack, self._factors, strict=True):
                layer.build((None, None, width))
                width = factor * self.units
        self.built = True

    def call(self, inputs, mask, seed=None, jit_compile=False):
        # cuDNN refuses rows that are all padding, so their first position counts as a token.
        mask = tf.concat([tf.ones_like(mask[:, :1]), mask[:, 1:]], 1)
        seeds = iter(split_seed(seed, 2 * self.layers))
        options = {"jit_compile": jit_compile} if self.cell == "lstm" else {}
        tops, finals = [], []
        for stack in (self.forward, self.backward):
            outputs, output_mask = inputs, mask
            for layer, factor in zip(stack, self._factors, strict=True):
                outputs, *state = layer(dropout(outputs, self.dropout, next(seeds)), mask=output_mask, **options)
                if layer.go_backwards:
                    outputs = tf.reverse(outputs, [1])
                finals += state
                outputs, output_mask = _joined(outputs, output_mask, factor)
            tops.append(outputs)
        return tf.concat(tops, -1), tf.concat(finals, -1)


def _joined(outputs: tf.Tensor, mask: tf.Tensor, factor: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Joins each `factor` neighbours of outputs [B, S, U], in the order of the source, and of their mask [B, S].

    Both stacks join the same positions, and padding counts as 0, so that neither the direction nor the padded length of
    a batch changes what a state stands for.
    """
    if factor == 1:
        return outputs, mask
    length = outputs.shape[1] or tf.shape(outputs)[1]
    outputs = tf.where(mask[:, :, None], outputs, tf.zeros_like(outputs))
    outputs = tf.pad(outputs, [[0, 0], [0, -length % factor], [0, 0]])
    shape = [tf.shape(outputs)[0], -(-length // factor), factor * outputs.shape[2]]
    return tf.reshape(outputs, shape), mask[:, ::factor]


class ActiveMemoryEncoder(Encoder):
    """Reads a source into a memory of one column, and changes it as many times as the source has positions.

    The states are the positions of the last memory. In the Neural GPU (Kaiser & Bengio, 2016), the output layer reads
    them; here, the decoder's attention does. The final state is their mean, without padding. The memory starts from a
    dense layer on the inputs with layer normalization, as in the authors' code; `initializer` is for that layer alone.

    The cells change the memory one after the other at each step. Dropout is on the first memory, once per source: on
    the cells, it would add up over the steps.
    """

    def __init__(self, config: "Seq2SeqConfig", **kwargs):
        super().__init__(config, **kwargs)
        self.final_size = 2 * self.units
        options = {"maps": 2 * self.units, "width": 1, "update_bias": _UPDATE_BIAS, "dtype": self.dtype_policy}
        self.input_layer = tf.keras.layers.Dense(
            2 * self.units, kernel_initializer=self.initializer, dtype=self.dtype_policy, name="input"
        )
        self.norm = tf.keras.layers.LayerNormalization(epsilon=1e-5, dtype=self.dtype_policy, name="norm")
        self.cells = [ConvolutionalGRU(name=f"cell_{i}", **options) for i in range(self.layers)]

    def build(self, input_shape):
        self.input_layer.build(input_shape)
        self.norm.build((None, None, 2 * self.units))
        for cell in self.cells:
            cell.build((None, None, 1, 2 * self.units))
        self.built = True

    def call(self, inputs, mask, seed=None, jit_compile=False):
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), 1)
        maps = dropout(self.norm(self.input_layer(inputs)), self.dropout, seed)
        maps = tf.where(mask[:, :, None], maps, tf.zeros_like(maps))
        states = run_steps(self.cells, maps[:, :, None], lengths)[:, :, 0]
        counts = tf.cast(tf.maximum(lengths, 1), states.dtype)
        return states, tf.reduce_sum(states, 1) / counts[:, None]
