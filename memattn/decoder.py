"""The decoder: its state, one step, and the same step over a whole target."""

from typing import Any

import tensorflow as tf

from memattn.attention import AttentionMechanism
from memattn.dropout import dropout, split


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
            tf.keras.layers.LSTM(
                units,
                kernel_initializer=initializer,
                recurrent_initializer=initializer,
                return_sequences=True,
                name=f"lstm_{i}",
            )
            for i in range(layers)
        ]
        self.mixing_layer = (
            tf.keras.layers.Dense(units, activation="tanh", kernel_initializer=initializer, name="mix") if mix else None
        )

    def initial_state(self, cells: list, memory: dict[str, tf.Tensor], num_queries: int) -> dict[str, Any]:
        """The state before the first step; each tensor [B, Q, ...].

        `cells` holds (h, c) [B, U] of each layer, which all Q = num_queries queries of a source start from.
        """
        values = memory["values"]
        context = tf.zeros([tf.shape(values)[0], num_queries, values.shape[-1]], values.dtype)
        return {
            "cells": [[tf.repeat(part[:, None], num_queries, 1) for part in cell] for cell in cells],
            "attention": self.attention.initial_state(memory, num_queries),
            "context": context,
        }

    def step(
        self, inputs: tf.Tensor, state: dict, memory: dict[str, tf.Tensor], seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, dict]:
        """One step for inputs [B, Q, E]: the cell's output [B, Q, U], the scores [B, Q, M] and the next state."""
        queries = tf.shape(inputs)[1]
        outputs = tf.concat([inputs, state["context"]], -1) if self.input_feeding else inputs
        cells = []
        for lstm, cell, cell_seed in zip(self.stack, state["cells"], split(seed, self.layers), strict=True):
            if not lstm.built:
                lstm.build((None, None, outputs.shape[-1]))
            outputs = _flat(dropout(outputs, self.dropout, cell_seed))  # [B * Q, E or U]
            outputs, cell = lstm.cell(outputs, [_flat(part) for part in cell])
            cells.append([_grouped(part, queries) for part in cell])
            outputs = _grouped(outputs, queries)
        scores, context, attention = self._read(outputs, memory, state["attention"])
        return outputs, scores, {"cells": cells, "attention": attention, "context": context}

    def read_out(self, outputs: tf.Tensor, contexts: tf.Tensor) -> tf.Tensor:
        """What the output layer sees of outputs [B, Q, U] and contexts [B, Q, D]: [B, Q, U], or [B, Q, U + D]."""
        features = tf.concat([outputs, contexts], -1)
        return self.mixing_layer(features) if self.mix else features

    def call(
        self, inputs: tf.Tensor, cells: list, memory: dict[str, tf.Tensor], seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """All steps of inputs [B, T, E] under teacher forcing: features for the output layer, scores [B, T, M]."""
        unroll = self._unroll_steps if self.input_feeding else self._unroll_layers
        outputs, contexts, scores = unroll(inputs, cells, memory, seed)
        return self.read_out(outputs, contexts), scores

    def _unroll_steps(self, inputs, cells, memory, seed):
        """Step by step: with input feeding, a step needs the context of the one before."""
        steps = inputs.shape[1] if inputs.shape[1] is not None else tf.shape(inputs)[1]
        inputs = tf.transpose(inputs, [1, 0, 2])  # [T, B, E]
        state = self.initial_state(cells, memory, 1)
        results = [tf.TensorArray(inputs.dtype, steps) for _ in range(3)]

        def step(time, state, results):
            step_seed = None if seed is None else tf.random.experimental.stateless_fold_in(seed, time)
            outputs, scores, state = self.step(inputs[time][:, None], state, memory, step_seed)
            values = (outputs, state["context"], scores)
            return (
                time + 1,
                state,
                [array.write(time, value[:, 0]) for array, value in zip(results, values, strict=True)],
            )

        _, _, results = tf.while_loop(
            lambda time, *_: time < steps, step, (0, state, results), maximum_iterations=steps
        )
        return [tf.transpose(array.stack(), [1, 0, 2]) for array in results]

    def _unroll_layers(self, inputs, cells, memory, seed):
        """Layer by layer: without input feeding, all queries go through the attention in one product."""
        outputs = inputs
        for lstm, cell, layer_seed in zip(self.stack, cells, split(seed, self.layers), strict=True):
            outputs = lstm(dropout(outputs, self.dropout, layer_seed), initial_state=list(cell))
        scores, contexts, _ = self._read(outputs, memory, ())
        return outputs, contexts, scores

    def _read(self, queries, memory, state):
        """Scores [B, Q, M] of queries [B, Q, U], contexts [B, Q, D] (Eqs. 1 and 6) and the mechanism's next state."""
        scores, state = self.attention(queries, memory, state)
        scores = tf.ensure_shape(scores, [None, None, memory["values"].shape[1]])
        return scores, tf.matmul(scores, memory["values"]), state

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


def _flat(tensor: tf.Tensor) -> tf.Tensor:
    """[B, Q, X] as [B * Q, X]."""
    return tf.reshape(tensor, [-1, tensor.shape[-1]])


def _grouped(tensor: tf.Tensor, queries: tf.Tensor) -> tf.Tensor:
    """[B * Q, X] as [B, Q, X]."""
    return tf.reshape(tensor, [-1, queries, tensor.shape[-1]])
