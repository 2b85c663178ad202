"""The paper's decoder: a stack of LSTMs that reads one context in each step."""

from collections.abc import Mapping

import tensorflow as tf

from memattn.attention.initializers import initializer_of
from memattn.models.attentive_decoder import AttentiveDecoder
from memattn.models.dropout import dropout, split_seed
from memattn.models.lstm import run_lstm
from memattn.models.reader import make_reader
from memattn.models.stepper import StackStepper


class LSTMStepper(StackStepper):
    """Runs a `Decoder` step by step, G = 4U.

    The weights of a further cell are the kernel [2U, 4U] of its input and previous output, and the bias [4U].
    """

    def _run_first(self, gates, cell):
        hidden, memory_cell = cell
        return _lstm(gates + tf.tensordot(hidden, self._recurrent_kernel, 1), memory_cell)

    def _run_upper(self, inputs, cell, weights):
        (hidden, memory_cell), (kernel, bias) = cell, weights
        return _lstm(tf.tensordot(tf.concat([inputs, hidden], -1), kernel, 1) + bias, memory_cell)


@tf.keras.utils.register_keras_serializable("memattn")
class Decoder(AttentiveDecoder):
    """A stack of LSTM cells that reads one context per step from an attention mechanism.

    The query is the top cell's output in the same step (h of Eq. 7).

    Args:
      layers: number of layers.
      input_feeding: concatenate the previous step's context to the input.
      mix: the output layer gets tanh(W [h; c]), U wide; if false, it gets [h; c] as in Eq. 3.
      **kwargs: see `AttentiveDecoder`.
    """

    state_parts = 2  # h and c
    # A decoder of other cells overrides these, and `_upper_weights`.
    cell_name, cell_type = "lstm", tf.keras.layers.LSTMCell
    runs_whole_layers = True  # without input feeding, by `run_lstm`
    cell_options: Mapping[str, bool] = {}
    stepper_type: type[StackStepper] = LSTMStepper

    def __init__(self, *, layers: int, input_feeding: bool = True, mix: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.layers, self.input_feeding, self.mix = layers, input_feeding, mix
        self.stack = [
            # Only the cells run, in a stepper or in `run_lstm`. The RNN around each builds it, and names its weights.
            tf.keras.layers.RNN(self._cell(name), return_sequences=True, dtype=self.dtype_policy, name=name)
            for name in (f"{self.cell_name}_{i}" for i in range(layers))
        ]
        if mix:
            self.mixing_layer = tf.keras.layers.Dense(
                self.units,
                activation="tanh",
                kernel_initializer=initializer_of("mix", self.initializer),
                dtype=self.dtype_policy,
                name="mix",
            )

    def _cell(self, name: str) -> tf.keras.layers.Layer:
        """Makes the cell of the layer `name`."""
        return self.cell_type(
            self.units,
            kernel_initializer=initializer_of(f"{name}/kernel", self.initializer),
            recurrent_initializer=initializer_of(f"{name}/recurrent_kernel", self.initializer),
            dtype=self.dtype_policy,
            **self.cell_options,
        )

    def gates(self, inputs, seed=None):
        cell = self.stack[0].cell
        kernel, bias = self._cast(cell.kernel)[: inputs.shape[-1]], self._cast(cell.bias)
        return tf.tensordot(dropout(inputs, self.dropout, seed), kernel, 1) + bias

    def stepper(self, memory, *, fold=False):
        first, *upper = [layer.cell for layer in self.stack]
        kernel, values = self._cast(first.kernel), memory["values"]
        feed_kernel = kernel[kernel.shape[0] - values.shape[2] :] if self.input_feeding else None
        mix, mix_kernel = None, None
        if self.mix:
            weights, bias = map(self._cast, self.mixing_layer.weights)  # the weights are W of [h; c]
            mix, mix_kernel = (weights[: self.units], bias), weights[self.units :]
        return self.stepper_type(
            attention=self.attention.for_search() if fold else self.attention,
            memory=memory,
            reader=make_reader(values, feed_kernel, mix_kernel, self.dropout, fold=fold),
            recurrent_kernel=self._cast(first.recurrent_kernel),
            upper=[
                self._upper_weights(*map(self._cast, (cell.kernel, cell.recurrent_kernel, cell.bias))) for cell in upper
            ],
            mix=mix,
            dropout=self.dropout,
        )

    def _upper_weights(self, kernel: tf.Tensor, recurrent_kernel: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the weights of a cell above the first, as the stepper's `_run_upper` takes them."""
        return tf.concat([kernel, recurrent_kernel], 0), bias

    def _make_weights(self, width, context_size):
        width += context_size * self.input_feeding
        for layer in self.stack:
            layer.build((None, None, width))
            width = self.units
        if self.mix:
            self.mixing_layer.build((None, self.units + context_size))

    def compute_output_shape(self, inputs_shape, memory_shape, **_):
        context_size = self.attention.context_size(memory_shape["values"][-1])
        features = self.units if self.mix else self.units + context_size
        return (*inputs_shape[:-1], features), (*inputs_shape[:-1], memory_shape["values"][1])

    def _unroll(self, inputs, cells, stepper, seed):
        """Runs layer after layer if no step needs a context: then all queries read the memory in one product."""
        if self.input_feeding or self.attention.is_recurrent or not self.runs_whole_layers:
            return super()._unroll(inputs, cells, stepper, seed)
        outputs = inputs
        for lstm, cell, layer_seed in zip(self.stack, cells, split_seed(seed, self.layers), strict=True):
            # Where XLA compiles the decoder, the loop in a function of its own would make an update three times slower.
            outputs, *_ = run_lstm(lstm.cell, dropout(outputs, self.dropout, layer_seed), cell, jit_compile=None)
        reading = stepper.read(outputs, (), seed)
        return outputs, reading.contexts, reading.scores


def _lstm(gates: tf.Tensor, memory_cell: tf.Tensor) -> list[tf.Tensor]:
    """Returns the next h and c of an LSTM for gates [B, Q, 4U] in Keras' order i, f, c, o."""
    i, f, candidate, o = tf.split(gates, 4, -1)
    memory_cell = tf.sigmoid(f) * memory_cell + tf.sigmoid(i) * tf.tanh(candidate)
    return [tf.sigmoid(o) * tf.tanh(memory_cell), memory_cell]
