"""The decoder: its state, one step, and the same step over a whole target."""

from typing import Any

import tensorflow as tf

from memattn.attention import AttentionMechanism
from memattn.dropout import dropout, split
from memattn.reader import FoldedReader, Reader


@tf.keras.utils.register_keras_serializable("memattn")
class Decoder(tf.keras.layers.Layer):
    """A stack of LSTM cells that reads one context a step from an attention mechanism.

    The query is the top cell's output of the same step (h of Eq. 7).

    Args:
      attention: the mechanism.
      layers, units: of the LSTM stack.
      dropout: rate on the input of every cell, a fresh mask each time step.
      input_feeding: concatenate the previous step's context to the input.
      mix: give tanh(W [h; c]), U wide, to the output layer; False gives it [h; c] as in Eq. 3.
      initializer: name or config, of the weight matrices.
    """

    def __init__(
        self,
        *,
        attention: AttentionMechanism,
        layers: int,
        units: int,
        dropout: float = 0.0,
        input_feeding: bool = True,
        mix: bool = True,
        initializer: str | dict = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.attention = attention
        self.layers, self.units, self.dropout = layers, units, dropout
        self.input_feeding, self.mix, self.initializer = input_feeding, mix, initializer
        self.stack = [
            # Not Keras' LSTM, which is a cuDNN operation on a GPU: XLA cannot compile that.
            tf.keras.layers.RNN(
                tf.keras.layers.LSTMCell(units, kernel_initializer=initializer, recurrent_initializer=initializer),
                return_sequences=True,
                name=f"lstm_{i}",
            )
            for i in range(layers)
        ]
        self.mixing_layer = (
            tf.keras.layers.Dense(units, activation="tanh", kernel_initializer=initializer, name="mix") if mix else None
        )

    def gates(self, inputs: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """What inputs [..., E] add to the gates of the first cell [..., 4U], its bias among it."""
        cell = self.stack[0].cell
        kernel, bias = self._cast(cell.kernel)[: inputs.shape[-1]], self._cast(cell.bias)
        return tf.tensordot(dropout(inputs, self.dropout, seed), kernel, 1) + bias

    def stepper(self, memory: dict[str, tf.Tensor], *, fold: bool = False) -> "Stepper":
        """The steps that read one memory, with all computed that they have in common.

        `fold` has the values folded where that takes fewer multiply-adds a step; then nothing is dropped out.
        """
        (first, *upper), values = [lstm.cell for lstm in self.stack], memory["values"]
        slots, width = values.shape[1:]
        kernel = self._cast(first.kernel)
        feed_kernel = kernel[kernel.shape[0] - width :] if self.input_feeding else None
        mix_kernel, mix_bias = map(self._cast, self.mixing_layer.weights) if self.mix else (None, None)
        kernels = feed_kernel, mix_kernel[self.units :] if self.mix else None
        return Stepper(
            attention=self.attention,
            memory=memory,
            reader=FoldedReader(values, *kernels)
            if fold and _folding_pays(slots, width, *kernels)
            else Reader(values, *kernels, rate=self.dropout),
            recurrent_kernel=self._cast(first.recurrent_kernel),
            upper=[
                (tf.concat([self._cast(cell.kernel), self._cast(cell.recurrent_kernel)], 0), self._cast(cell.bias))
                for cell in upper
            ],
            mix=(mix_kernel[: self.units], mix_bias) if self.mix else None,
            dropout=self.dropout,
        )

    def build(self, input_shape):
        self.built = True  # by the first call, which knows how wide a memory is; else Keras traces one before it

    def call(
        self, inputs: tf.Tensor, cells: list, memory: dict[str, tf.Tensor], seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """All steps of inputs [B, T, E] under teacher forcing: features for the output layer, scores [B, T, M]."""
        self._make_weights(inputs.shape[-1], memory["values"].shape[-1])
        recurrent = bool(tf.nest.flatten(self.attention.initial_state(memory, 1)))
        unroll = self._unroll_steps if self.input_feeding or recurrent else self._unroll_layers
        stepper = self.stepper(memory)
        outputs, contexts, scores = unroll(inputs, cells, stepper, seed)
        return stepper.read_out(outputs, contexts), scores

    def _make_weights(self, embedding_size: int, context_size: int) -> None:
        widths = [embedding_size + context_size * self.input_feeding] + [self.units] * (self.layers - 1)
        for lstm, width in zip(self.stack, widths, strict=True):
            if not lstm.built:
                lstm.build((None, None, width))
        if self.mix and not self.mixing_layer.built:
            self.mixing_layer.build((None, self.units + context_size))

    def _unroll_steps(self, inputs, cells, stepper, seed):
        """Step by step: a step needs the context or the attention's state of the one before."""
        steps = inputs.shape[1] if inputs.shape[1] is not None else tf.shape(inputs)[1]
        inputs_seed, step_seed = split(seed, 2)
        gates = tf.transpose(self.gates(inputs, inputs_seed), [1, 0, 2])[:, :, None]  # [T, B, 1, 4U]
        gates = tf.TensorArray(gates.dtype, steps).unstack(gates)  # reading one step has the gradient of one step
        state = stepper.initial_state(cells, 1)
        results = [tf.TensorArray(gates.dtype, steps) for _ in range(3)]

        def step(time, state, results):
            own_seed = None if seed is None else tf.random.experimental.stateless_fold_in(step_seed, time)
            *values, state = stepper(gates.read(time), state, own_seed)
            return (
                time + 1,
                state,
                [array.write(time, value[:, 0]) for array, value in zip(results, values, strict=True)],
            )

        _, _, results = tf.while_loop(
            lambda time, *_: time < steps, step, (0, state, results), maximum_iterations=steps
        )
        return [tf.transpose(array.stack(), [1, 0, 2]) for array in results]

    def _unroll_layers(self, inputs, cells, stepper, seed):
        """Layer by layer, where steps need nothing of each other: all queries read the memory in one product."""
        outputs = inputs
        for lstm, cell, layer_seed in zip(self.stack, cells, split(seed, self.layers), strict=True):
            outputs = lstm(dropout(outputs, self.dropout, layer_seed), initial_state=list(cell))
        scores, _, contexts, _ = stepper.read(outputs, ())
        return outputs, contexts, scores

    def _cast(self, weight) -> tf.Tensor:
        return tf.cast(tf.convert_to_tensor(weight), self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "attention": tf.keras.layers.serialize(self.attention),
            "layers": self.layers,
            "units": self.units,
            "dropout": self.dropout,
            "input_feeding": self.input_feeding,
            "mix": self.mix,
            "initializer": self.initializer,
        }

    @classmethod
    def from_config(cls, config):
        attention = config.pop("attention")
        return cls(attention=tf.keras.layers.deserialize(attention), **config)


class Stepper:
    """One step of a decoder after the other, for Q queries that share one memory; made by `Decoder.stepper`.

    Args:
      attention: the mechanism.
      memory: what it made of the source.
      reader: of the memory's contexts.
      recurrent_kernel: [U, 4U] of the first cell.
      upper: kernel [2U, 4U] of input and output together, and bias [4U], of each further cell.
      mix: the kernel [U, U] and bias [U] of the mixing layer that an output meets, or None.
      dropout: rate on the input of every cell.
    """

    def __init__(self, *, attention, memory, reader, recurrent_kernel, upper, mix, dropout):
        self._attention, self._memory, self._reader = attention, memory, reader
        self._recurrent_kernel, self._upper, self._mix, self._dropout = recurrent_kernel, upper, mix, dropout

    def initial_state(self, cells: list, num_queries: int) -> dict[str, Any]:
        """The state before the first step; each tensor [B, Q, ...].

        `cells` holds (h, c) [B, U] of each layer, which all Q = num_queries queries of a source start from.
        """
        hidden = cells[0][0]
        return {
            "cells": [[tf.repeat(part[:, None], num_queries, 1) for part in cell] for cell in cells],
            "attention": self._attention.initial_state(self._memory, num_queries),
            "fed": tf.zeros([tf.shape(hidden)[0], num_queries, self._reader.width], hidden.dtype),
        }

    def __call__(
        self, gates: tf.Tensor, state: dict, seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, dict]:
        """One step for `Decoder.gates` [B, Q, 4U] of the inputs.

        Returns the top cell's output [B, Q, U] and the contexts, both for `read_out`, the scores [B, Q, M] and the next
        state.
        """
        seeds = split(seed, 1 + len(self._upper))
        (hidden, memory_cell), *upper = state["cells"]
        gates = self._reader.feed(gates, state["fed"], seeds[0]) + tf.tensordot(hidden, self._recurrent_kernel, 1)
        cells = [_lstm(gates, memory_cell)]
        for (kernel, bias), (hidden, memory_cell), own_seed in zip(self._upper, upper, seeds[1:], strict=True):
            inputs = tf.concat([dropout(cells[-1][0], self._dropout, own_seed), hidden], -1)
            cells.append(_lstm(tf.tensordot(inputs, kernel, 1) + bias, memory_cell))
        outputs = cells[-1][0]
        scores, fed, contexts, attention = self.read(outputs, state["attention"])
        return outputs, contexts, scores, {"cells": cells, "attention": attention, "fed": fed}

    def read(self, queries: tf.Tensor, state: Any) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, Any]:
        """Scores [B, Q, M] of queries [B, Q, U], what the reader reads by them, the mechanism's next state."""
        scores, state = self._attention(queries, self._memory, state)
        scores = tf.ensure_shape(scores, [None, None, self._memory["values"].shape[1]])
        return scores, *self._reader.read(scores), state

    def read_out(self, outputs: tf.Tensor, contexts: tf.Tensor) -> tf.Tensor:
        """What the output layer sees of outputs [B, Q, U] and contexts: tanh(W [h; c]) [B, Q, U], or [h; c]."""
        contexts = self._reader.mix(contexts)
        if self._mix is None:
            return tf.concat([outputs, contexts], -1)
        kernel, bias = self._mix
        return tf.tanh(tf.tensordot(outputs, kernel, 1) + contexts + bias)


def _lstm(gates: tf.Tensor, memory_cell: tf.Tensor) -> list[tf.Tensor]:
    """The next h and c of gates [B, Q, 4U] in Keras' order i, f, c, o."""
    i, f, candidate, o = tf.split(gates, 4, -1)
    memory_cell = tf.sigmoid(f) * memory_cell + tf.sigmoid(i) * tf.tanh(candidate)
    return [tf.sigmoid(o) * tf.tanh(memory_cell), memory_cell]


def _folding_pays(slots: int | None, width: int, feed_kernel: tf.Tensor | None, mix_kernel: tf.Tensor | None) -> bool:
    """Whether a query costs fewer multiply-adds with M = `slots` folded rows than with rows of D = `width`."""
    if slots is None:
        return False
    fed, mixed = (0 if kernel is None else kernel.shape[1] for kernel in (feed_kernel, mix_kernel))
    folded = fed + (width if mix_kernel is None else mixed)
    return slots * folded < slots * width + width * (fed + mixed)
