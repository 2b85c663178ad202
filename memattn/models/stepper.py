"""Decoder steps: a single step, and all steps of a target under teacher forcing."""

from typing import Any, NamedTuple

import tensorflow as tf

from memattn.attention import sparse
from memattn.attention.step_loop import run_loop
from memattn.models.bridge import Cells
from memattn.models.dropout import dropout, fold_in, split_seed
from memattn.models.reader import Reader

ATTENTION_SEED = 1  # number that `fold_in` gets for the attention mechanism's seed


class StepResult(NamedTuple):
    """The result of one decoder step for Q queries of each source.

    Attributes:
      outputs: [B, Q, ...], for `Stepper.read_out`.
      contexts: [B, Q, ...], for `Stepper.read_out`.
      scores: [B, Q, M], of the memory's values.
      state: the next state, tensors [B, Q, ...].
    """

    outputs: tf.Tensor
    contexts: tf.Tensor
    scores: tf.Tensor
    state: dict[str, Any]


class Reading(NamedTuple):
    """The result of reading the memory with Q queries.

    Attributes:
      scores: [B, Q, M], of the memory's values.
      fed: [B, Q, ...], for `Reader.feed`.
      contexts: [B, Q, ...], for `Reader.mix` in this step.
      state: the attention mechanism's next state.
    """

    scores: tf.Tensor
    fed: tf.Tensor
    contexts: tf.Tensor
    state: Any


class Stepper:
    """Runs a decoder step by step, for Q queries that share one memory; made by the decoder's method `stepper`.

    Args:
      attention: the mechanism, or what its `for_search` returns.
      memory: the mechanism's memory of the sources.
      reader: reads contexts from the memory.
    """

    def __init__(self, *, attention: Any, memory: dict[str, tf.Tensor], reader: Reader):
        self._attention, self._memory, self._reader = attention, memory, reader

    def initial_state(self, cells: Cells, num_queries: int) -> dict[str, Any]:
        """Returns the state before the first step, in which all Q = `num_queries` queries of a source are equal."""
        return {
            "cells": [[tf.repeat(part[:, None], num_queries, 1) for part in cell] for cell in cells],
            "attention": self._attention.initial_state(self._memory, num_queries),
        }

    def __call__(self, gates: tf.Tensor, state: dict, seed: tf.Tensor | None = None) -> StepResult:
        """Runs one step for gates [B, Q, G], which the decoder's `gates` made of the inputs."""
        raise NotImplementedError

    def read_out(self, outputs: tf.Tensor, contexts: tf.Tensor) -> tf.Tensor:
        """Returns the input of the output layer [B, Q, F], for the outputs and contexts of steps."""
        raise NotImplementedError

    def read(self, queries: tf.Tensor, state: Any, seed: tf.Tensor | None = None) -> Reading:
        """Reads the memory with queries [B, Q, U] and the attention mechanism's state."""
        values = self._memory["values"]
        scores, state = self._attention.score(queries, self._memory, state, fold_in(seed, ATTENTION_SEED))
        fed, contexts = self._reader.read(scores)
        # A graph leaves this out if no caller uses the dense scores.
        dense = tf.ensure_shape(sparse.dense(scores, tf.shape(values)[1]), [None, None, values.shape[1]])
        return Reading(dense, fed, contexts, state)


class StackStepper(Stepper):
    """Runs a stack of cells step by step; base of the steppers of LSTMs and GRUs.

    Args:
      recurrent_kernel: [U, G], of the first cell.
      upper: weights of each further cell, for `_run_upper`.
      mix: the mixing layer's kernel [U, U] for the output, and its bias [U]; or None.
      dropout: rate on the input of every cell.
      **kwargs: see `Stepper`.
    """

    def __init__(self, *, recurrent_kernel, upper, mix, dropout, **kwargs):
        super().__init__(**kwargs)
        self._recurrent_kernel, self._upper, self._mix, self._dropout = recurrent_kernel, upper, mix, dropout

    def initial_state(self, cells, num_queries):
        hidden = cells[0][0]
        fed = tf.zeros([tf.shape(hidden)[0], num_queries, self._reader.width], hidden.dtype)
        return {**super().initial_state(cells, num_queries), "fed": fed}

    def __call__(self, gates, state, seed=None):
        seeds = split_seed(seed, 1 + len(self._upper))
        first, *upper = state["cells"]
        cells = [self._run_first(self._reader.feed(gates, state["fed"], seeds[0]), first)]
        for weights, cell, cell_seed in zip(self._upper, upper, seeds[1:], strict=True):
            cells.append(self._run_upper(dropout(cells[-1][0], self._dropout, cell_seed), cell, weights))
        outputs = cells[-1][0]
        reading = self.read(outputs, state["attention"], seed)
        next_state = {"cells": cells, "attention": reading.state, "fed": reading.fed}
        return StepResult(outputs, reading.contexts, reading.scores, next_state)

    def read_out(self, outputs, contexts):
        """Returns tanh(W [h; c]) [B, Q, U]; or [h; c], without a mixing layer."""
        contexts = self._reader.mix(contexts)
        if self._mix is None:
            return tf.concat([outputs, contexts], -1)
        kernel, bias = self._mix
        return tf.tanh(tf.tensordot(outputs, kernel, 1) + contexts + bias)

    def _run_first(self, gates: tf.Tensor, cell: list[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the next state of the first cell, for what its inputs contribute to its gates [B, Q, G]."""
        raise NotImplementedError

    def _run_upper(self, inputs: tf.Tensor, cell: list[tf.Tensor], weights: tuple[tf.Tensor, ...]) -> list[tf.Tensor]:
        """Returns the next state of a further cell, for its inputs [B, Q, U] and its weights."""
        raise NotImplementedError


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


def run_steps(
    stepper: Stepper, gates: tf.Tensor, cells: Cells, seed: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Runs T decoder steps in sequence for gates [B, T, G], beginning with the state `cells`.

    Returns outputs [B, T, ...] and contexts [B, T, ...], both for `read_out`, and scores [B, T, M].
    """

    def step(time, gates_of_step, state):
        result = stepper(gates_of_step, state, fold_in(seed, time))
        return (result.outputs, result.contexts, result.scores), result.state

    outputs, contexts, scores = run_loop(step, stepper.initial_state(cells, 1), gates, num_outputs=3, dtype=gates.dtype)
    return outputs, contexts, scores
