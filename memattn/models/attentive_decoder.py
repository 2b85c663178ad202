"""Decoders that read a context from the memory in each step: their base, their steps, and how a step reads.

A `Stepper` runs a step, in which a `Reader` reads a context. A context enters two linear layers: the cell's input (of
the next step with input feeding, of this step in RNNsearch), and the output layer's input.
"""

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from memattn.attention import AttentionMechanism, ops
from memattn.attention.configured import Initializer
from memattn.attention.ops import SparseScores, cast, run_loop
from memattn.models.dropout import ATTENTION_SEED, dropout, fold_in, split_seed

if TYPE_CHECKING:
    from memattn.models.seq2seq import Seq2SeqConfig

Cells = list[tuple[tf.Tensor, ...]]
"""The state of each decoder layer: h and c of an LSTM, h of a GRU, [B, U]."""


class ContextKernels(NamedTuple):
    """The matrices that multiply contexts of width D."""

    input: Any  # [D, G], for the cell's input; None without input feeding
    output: Any  # [D, F], for the output layer's input; None passes a context on as it is

    def map(self, function: Callable[[Any], Any]) -> "ContextKernels":
        """Returns what a function makes of each matrix."""
        return ContextKernels(*(None if kernel is None else function(kernel) for kernel in self))


class AttentiveDecoder(tf.keras.layers.Layer):
    """A decoder that reads one context in each step from an attention mechanism.

    A decoder defines `_make_weights`, `gates`, `context_kernels` and `_stepper`.

    Attributes:
      units: width U of the state, and of the queries.
      dropout: rate on the inputs of cells, with a fresh mask in each step.
      context_size, output_size: widths D of contexts, and F of the input of the output layer; known after `build`.
    """

    state_parts = 1
    """Number of tensors in the state of a layer."""
    default_bridge = "zero"
    """The bridge that `bridge: auto` chooses where there is attention."""

    def __init__(self, config: "Seq2SeqConfig", attention: AttentionMechanism, *, initializer: Initializer, **kwargs):
        super().__init__(**kwargs)
        self.attention, self.units = attention, config.units
        self.dropout, self.initializer = config.dropout, initializer

    def build(self, inputs_shape, states_shape):
        """Makes the weights for inputs [B, T, E] and encoder states [B, S, D]."""
        self.attention.build((None, None, self.units), states_shape)
        self.context_size = self.attention.context_size(states_shape[-1])
        self.output_size = self._make_weights(inputs_shape[-1])
        self.built = True

    @abc.abstractmethod
    def _make_weights(self, width: int) -> int:
        """Makes the weights for inputs of width E = `width`; returns `output_size`."""

    @abc.abstractmethod
    def gates(self, inputs: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns what inputs [..., E] contribute to the gates of a step [..., G], biases included."""

    @abc.abstractmethod
    def context_kernels(self) -> ContextKernels:
        """Returns the weights that multiply contexts."""

    def stepper(self, memory: dict[str, tf.Tensor], *, for_search: bool = False) -> "Stepper":
        """Does the work that all steps over one memory share; returns the stepper that runs single steps.

        A search has no dropout, and many queries of each source. So with `for_search`, what the mechanism's method
        `for_search` returns computes the weights, and products with the memory may be precomputed.
        """
        kernels = self.context_kernels().map(self._cast)
        attention = self.attention.for_search() if for_search else self.attention
        if for_search and precomputing_pays(memory["values"].shape[1], self.context_size, kernels):
            return self._stepper(PrecomputedReader(attention, memory, kernels))
        return self._stepper(Reader(attention, memory, kernels, self.dropout))

    @abc.abstractmethod
    def _stepper(self, reader: "Reader") -> "Stepper":
        """Makes the stepper that reads with `reader`."""

    def call(
        self, inputs: tf.Tensor, cells: Cells, memory: dict[str, tf.Tensor], seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs all steps under teacher forcing, from the state `cells`, for inputs [B, T, E].

        Returns the inputs of the output layer [B, T, F], and the attention weights of the memory's values [B, T, M].
        """
        stepper = self.stepper(memory)
        outputs, contexts, weights = self._run_steps(inputs, cells, stepper, seed)
        return stepper.output_features(outputs, contexts), weights

    def _run_steps(
        self, inputs: tf.Tensor, cells: Cells, stepper: "Stepper", seed: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Runs step after step; returns outputs, contexts and weights of `StepResult`, [B, T, ...]."""
        inputs_seed, steps_seed = split_seed(seed, 2)
        gates = self.gates(inputs, inputs_seed)

        def step(time, gates_of_step, state):
            result = stepper(gates_of_step, state, fold_in(steps_seed, time))
            return (result.outputs, result.contexts, result.weights), result.state

        return tuple(run_loop(step, stepper.initial_state(cells, 1), gates, num_outputs=3, dtype=gates.dtype))

    def _cast(self, weight) -> tf.Tensor:
        return cast(weight, self.compute_dtype)


class StepResult(NamedTuple):
    """The result of one decoder step for Q queries of each source."""

    outputs: tf.Tensor  # [B, Q, ...], for `Stepper.output_features`, as are the contexts
    contexts: tf.Tensor  # [B, Q, ...]
    weights: tf.Tensor  # [B, Q, M], attention weights of the memory's values
    state: dict[str, Any]  # the next state, tensors [B, Q, ...]


class Stepper:
    """Runs a decoder step by step, for Q queries that share one memory; made by the decoder's method `stepper`."""

    def __init__(self, reader: "Reader"):
        self.reader = reader

    def initial_state(self, cells: Cells, num_queries: int) -> dict[str, Any]:
        """Returns the state before the first step, in which all Q = `num_queries` queries of a source are equal."""
        return {
            "cells": [[tf.repeat(part[:, None], num_queries, 1) for part in cell] for cell in cells],
            "attention": self.reader.attention.initial_state(self.reader.memory, num_queries),
        }

    @abc.abstractmethod
    def __call__(self, gates: tf.Tensor, state: dict, seed: tf.Tensor | None = None) -> StepResult:
        """Runs one step for gates [B, Q, G], which the decoder's `gates` made of the inputs."""

    @abc.abstractmethod
    def output_features(self, outputs: tf.Tensor, contexts: tf.Tensor) -> tf.Tensor:
        """Returns the input of the output layer [B, Q, F], for the outputs and contexts of steps."""


class Reading(NamedTuple):
    """Attention weights and contexts of Q queries."""

    weights: tf.Tensor  # [B, Q, M], attention weights of the memory's values
    input_contexts: tf.Tensor  # [B, Q, ...], for `Reader.add_to_gates`
    output_contexts: tf.Tensor  # [B, Q, ...], for `Reader.output_part`
    state: Any  # the attention mechanism's next state


class Reader:
    """Reads contexts c = weights @ values (Eqs. 1 and 6), and multiplies them by two kernels.

    Args:
      attention: the mechanism, or what its `for_search` returns.
      memory: the mechanism's memory of the sources.
      kernels: the two kernels.
      rate: dropout rate of the contexts in the cell's input.

    Attributes:
      input_width: width of the contexts for the cell's input.
    """

    def __init__(self, attention: Any, memory: dict[str, tf.Tensor], kernels: ContextKernels, rate: float = 0.0):
        self.attention, self.memory, self._kernels, self._rate = attention, memory, kernels, rate
        self.input_width = 0 if kernels.input is None else kernels.input.shape[0]

    def read(self, queries: tf.Tensor, state: Any, seed: tf.Tensor | None = None) -> Reading:
        """Reads the memory with queries [B, Q, U] and the attention mechanism's state."""
        values = self.memory["values"]
        weights, state = self.attention.score(queries, self.memory, state, fold_in(seed, ATTENTION_SEED))
        input_contexts, output_contexts = self._contexts(weights)
        # A graph leaves this out if no caller uses the dense weights.
        dense = tf.ensure_shape(ops.dense_scores(weights, tf.shape(values)[1]), [None, None, values.shape[1]])
        return Reading(dense, input_contexts, output_contexts, state)

    def _contexts(self, weights: tf.Tensor | SparseScores) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns contexts for `add_to_gates` and for `output_part`."""
        contexts = ops.contexts(weights, self.memory["values"])  # [B, Q, D]
        return contexts[:, :, : self.input_width], contexts

    def add_to_gates(self, gates: tf.Tensor, contexts: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """Adds to gates [B, Q, G] what the contexts in the cell's input contribute."""
        if not self.input_width:
            return gates
        return gates + tf.tensordot(dropout(contexts, self._rate, seed), self._kernels.input, 1)

    def output_part(self, contexts: tf.Tensor) -> tf.Tensor:
        """Returns what contexts contribute to the input of the output layer [B, Q, F]."""
        return contexts if self._kernels.output is None else tf.tensordot(contexts, self._kernels.output, 1)


class PrecomputedReader(Reader):
    """Computes weights @ (values @ kernels) in place of (weights @ values) @ kernels; there is no dropout.

    The products values @ kernels are computed once per source. Then a query takes M * (G + F) multiply-adds instead of
    M * D + D * (G + F), which is less work if many queries share the values.
    """

    def __init__(self, attention: Any, memory: dict[str, tf.Tensor], kernels: ContextKernels):
        super().__init__(attention, memory, kernels)
        values = memory["values"]
        for_input = values[:, :, :0] if kernels.input is None else tf.tensordot(values, kernels.input, 1)
        self.input_width = for_input.shape[-1]
        self._products = tf.concat([for_input, super().output_part(values)], -1)  # [B, M, G + F]

    def _contexts(self, weights):
        products = ops.contexts(weights, self._products)  # [B, Q, G + F]
        return products[:, :, : self.input_width], products[:, :, self.input_width :]

    def add_to_gates(self, gates, contexts, seed):
        return gates + contexts if self.input_width else gates

    def output_part(self, contexts):
        return contexts


def precomputing_pays(num_values: int | None, width: int, kernels: ContextKernels) -> bool:
    """Returns whether a query of M = `num_values` values takes fewer multiply-adds with precomputed products.

    `width` is D. It does not pay for an unknown number of values.
    """
    if num_values is None:
        return False
    input_width, output_width = (0 if kernel is None else kernel.shape[1] for kernel in kernels)
    product_width = input_width + (width if kernels.output is None else output_width)
    return num_values * product_width < num_values * width + width * (input_width + output_width)
