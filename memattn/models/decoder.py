"""The paper's decoder, a stack of LSTMs that reads one context in each step; with GRUs; and the bridge to it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import tensorflow as tf

from memattn.attention import AttentionMechanism
from memattn.attention.configured import Initializer
from memattn.models.attentive_decoder import AttentiveDecoder, Cells, ContextKernels, Reader, Stepper, StepResult
from memattn.models.dropout import dropout, split_seed
from memattn.models.lstm import run_lstm

if TYPE_CHECKING:
    from memattn.models.seq2seq import Seq2SeqConfig

CellFunction = Callable[[tf.Tensor, list[tf.Tensor]], list[tf.Tensor]]
"""From the gates of a step or the input, and the state of a cell, to the next state; all [B, Q, ...]."""


class StackDecoder(AttentiveDecoder):
    """A stack of LSTM cells that reads one context per step from an attention mechanism.

    The query is the top cell's output in the same step (h of Eq. 7). With `mix`, the output layer gets tanh(W [h; c]),
    U wide, of an attention layer; without it, [h; c] as in Eq. 3.
    """

    state_parts = 2  # h and c
    # A decoder of other cells overrides these, `_make_cell`, `_first_cell` and `_upper_cell`.
    cell_name = "lstm"
    runs_whole_layers = True  # without input feeding, by `run_lstm`

    def __init__(self, config: "Seq2SeqConfig", attention: AttentionMechanism, **kwargs):
        super().__init__(config, attention, **kwargs)
        self.layers, self.input_feeding, self.mix = config.layers, config.input_feeding, config.mix
        self.stack = [
            # Only the cells run, in a stepper or in `run_lstm`. The RNN around each builds it, and names its weights.
            tf.keras.layers.RNN(self._make_cell(), return_sequences=True, dtype=self.dtype_policy, name=name)
            for name in (f"{self.cell_name}_{i}" for i in range(self.layers))
        ]
        if self.mix:
            self.mixing_layer = tf.keras.layers.Dense(  # the attention layer; checkpoints have this name
                self.units,
                activation="tanh",
                kernel_initializer=self.initializer,
                dtype=self.dtype_policy,
                name="mix",
            )

    def _make_cell(self, kind: type = tf.keras.layers.LSTMCell, **options: bool) -> tf.keras.layers.Layer:
        """Makes the cell of a layer."""
        return kind(
            self.units,
            kernel_initializer=self.initializer,
            recurrent_initializer=self.initializer,
            dtype=self.dtype_policy,
            **options,
        )

    def _make_weights(self, width):
        width += self.context_size * self.input_feeding
        for layer in self.stack:
            layer.build((None, None, width))
            width = self.units
        if not self.mix:
            return self.units + self.context_size
        self.mixing_layer.build((None, self.units + self.context_size))
        return self.units

    def gates(self, inputs, seed=None):
        cell = self.stack[0].cell
        kernel, bias = self._cast(cell.kernel)[: inputs.shape[-1]], self._cast(cell.bias)
        return tf.tensordot(dropout(inputs, self.dropout, seed), kernel, 1) + bias

    def _run_steps(self, inputs, cells, stepper, seed):
        """Runs layer after layer if no step needs a context: then all queries read the memory in one product."""
        if self.input_feeding or self.attention.is_recurrent or not self.runs_whole_layers:
            return super()._run_steps(inputs, cells, stepper, seed)
        outputs = inputs
        for lstm, cell, layer_seed in zip(self.stack, cells, split_seed(seed, self.layers), strict=True):
            # Where XLA compiles the decoder, the loop in a function of its own would make an update three times slower.
            outputs, *_ = run_lstm(lstm.cell, dropout(outputs, self.dropout, layer_seed), cell, jit_compile=None)
        reading = stepper.reader.read(outputs, (), seed)
        return outputs, reading.output_contexts, reading.weights

    def context_kernels(self):
        kernel = tf.convert_to_tensor(self.stack[0].cell.kernel)
        input_kernel = kernel[kernel.shape[0] - self.context_size :] if self.input_feeding else None
        output_kernel = tf.convert_to_tensor(self.mixing_layer.kernel)[self.units :] if self.mix else None
        return ContextKernels(input_kernel, output_kernel)

    def _stepper(self, reader):
        first, *upper = [layer.cell for layer in self.stack]
        cells = [self._first_cell(first), *map(self._upper_cell, upper)]
        attention_layer = None
        if self.mix:
            kernel, bias = map(self._cast, self.mixing_layer.weights)  # the kernel is W in W [h; c]
            attention_layer = kernel[: self.units], bias
        return StackStepper(reader, cells, attention_layer, self.dropout)

    def _first_cell(self, cell: tf.keras.layers.Layer) -> CellFunction:
        """Returns a function from the gates of a step and the state of the first cell to its next state."""
        kernel = self._cast(cell.recurrent_kernel)
        return lambda gates, state: _lstm(gates + tf.tensordot(state[0], kernel, 1), state[1])

    def _upper_cell(self, cell: tf.keras.layers.Layer) -> CellFunction:
        """Returns a function from the input and the state of a further cell to its next state."""
        kernel = tf.concat([self._cast(cell.kernel), self._cast(cell.recurrent_kernel)], 0)
        bias = self._cast(cell.bias)
        return lambda inputs, state: _lstm(tf.tensordot(tf.concat([inputs, state[0]], -1), kernel, 1) + bias, state[1])


class GRUDecoder(StackDecoder):
    """A `StackDecoder` of GRUs as in Cho et al. (2014), where the reset gate comes before the product.

    The baseline of Kaiser and Bengio (2016) has this decoder and an encoder of GRUs.
    """

    state_parts = 1
    cell_name = "gru"
    runs_whole_layers = False

    def _make_cell(self):
        return super()._make_cell(tf.keras.layers.GRUCell, reset_after=False)

    def _first_cell(self, cell):
        kernels = divided_kernel(self._cast(cell.recurrent_kernel))
        return lambda gates, state: _gru(gates, state[0], *kernels)

    def _upper_cell(self, cell):
        kernel, recurrent_kernel, bias = map(self._cast, (cell.kernel, cell.recurrent_kernel, cell.bias))
        kernels = divided_kernel(recurrent_kernel)
        return lambda inputs, state: _gru(tf.tensordot(inputs, kernel, 1) + bias, state[0], *kernels)


class StackStepper(Stepper):
    """Runs a stack of cells step by step.

    Args:
      reader: reads contexts from the memory.
      cells: a function for each cell. The first one's input is the gates; that of the others, the output below.
      attention_layer: the attention layer's kernel [U, U] for the output, and its bias [U]; or None.
      dropout: rate on the input of every cell.
    """

    def __init__(
        self,
        reader: Reader,
        cells: list[CellFunction],
        attention_layer: tuple[tf.Tensor, tf.Tensor] | None,
        dropout: float,
    ):
        super().__init__(reader)
        self._cells, self._attention_layer, self._dropout = cells, attention_layer, dropout

    def initial_state(self, cells, num_queries):
        hidden = cells[0][0]
        context = tf.zeros([tf.shape(hidden)[0], num_queries, self.reader.input_width], hidden.dtype)
        return {**super().initial_state(cells, num_queries), "context": context}

    def __call__(self, gates, state, seed=None):
        first_seed, *upper_seeds = split_seed(seed, len(self._cells))
        (run_first, *run_upper), (first, *upper) = self._cells, state["cells"]
        cells = [run_first(self.reader.add_to_gates(gates, state["context"], first_seed), first)]
        for run, cell, cell_seed in zip(run_upper, upper, upper_seeds, strict=True):
            cells.append(run(dropout(cells[-1][0], self._dropout, cell_seed), cell))
        outputs = cells[-1][0]
        reading = self.reader.read(outputs, state["attention"], seed)
        next_state = {"cells": cells, "attention": reading.state, "context": reading.input_contexts}
        return StepResult(outputs, reading.output_contexts, reading.weights, next_state)

    def output_features(self, outputs, contexts):
        """Returns tanh(W [h; c]) [B, Q, U]; or [h; c], without an attention layer."""
        contexts = self.reader.output_part(contexts)
        if self._attention_layer is None:
            return tf.concat([outputs, contexts], -1)
        kernel, bias = self._attention_layer
        return tf.tanh(tf.tensordot(outputs, kernel, 1) + contexts + bias)


class Bridge(tf.keras.layers.Layer):
    """Makes the initial state of a decoder's layers from the encoder's final state.

    - "zero": zeros, so that the decoder knows the source through attention alone.
    - "dense": a dense layer on the final state.
    - "backward": tanh(W_s h), where h is the backward encoder's state at the first token, for encoders of one layer
      (Bahdanau et al., 2015). The c of an LSTM starts from zeros.

    `parts` is the number of tensors in the state of a decoder layer: 2 for an LSTM, 1 for a GRU.
    """

    def __init__(self, config: "Seq2SeqConfig", *, parts: int, initializer: Initializer, **kwargs):
        super().__init__(**kwargs)
        self.kind, self.layers, self.units, self.parts = config.kind_of_bridge, config.layers, config.units, parts
        self.encoder_units = config.units_of_encoder  # width of h
        is_backward = self.kind == "backward"
        if self.kind != "zero":
            self.dense = tf.keras.layers.Dense(
                self.units if is_backward else parts * self.layers * self.units,
                activation="tanh" if is_backward else None,
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


def _lstm(gates: tf.Tensor, memory_cell: tf.Tensor) -> list[tf.Tensor]:
    """Returns the next h and c of an LSTM for gates [B, Q, 4U] in Keras' order i, f, c, o."""
    i, f, candidate, o = tf.split(gates, 4, -1)
    memory_cell = tf.sigmoid(f) * memory_cell + tf.sigmoid(i) * tf.tanh(candidate)
    return [tf.sigmoid(o) * tf.tanh(memory_cell), memory_cell]


def _gru(gates: tf.Tensor, hidden: tf.Tensor, gate_kernel: tf.Tensor, candidate_kernel: tf.Tensor) -> list[tf.Tensor]:
    """Returns the next h of Keras' GRU, whose gate z keeps h; the arguments are those of `gru_parts`."""
    update, candidate = gru_parts(gates, hidden, gate_kernel, candidate_kernel)
    return [update * hidden + (1 - update) * candidate]


def gru_parts(
    gates: tf.Tensor, hidden: tf.Tensor, gate_kernel: tf.Tensor, candidate_kernel: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the update gate z and the candidate of a GRU (Cho et al., 2014), both [B, Q, U].

    Args:
      gates: what the inputs contribute to z, to the reset gate r and to the candidate, in this order, [B, Q, 3U].
      hidden: the previous h [B, Q, U].
      gate_kernel: [U, 2U], from h to z and r.
      candidate_kernel: [U, U].
    """
    units = hidden.shape[-1]
    recurrent = tf.tensordot(hidden, gate_kernel, 1)
    update, reset = tf.split(tf.sigmoid(gates[:, :, : 2 * units] + recurrent), 2, -1)
    return update, tf.tanh(gates[:, :, 2 * units :] + tf.tensordot(reset * hidden, candidate_kernel, 1))


def divided_kernel(recurrent_kernel: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a GRU's kernels of the gates [U, 2U], and of the candidate [U, U]."""
    units = recurrent_kernel.shape[0]
    return recurrent_kernel[:, : 2 * units], recurrent_kernel[:, 2 * units :]
