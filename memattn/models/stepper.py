"""Single decoder steps, and how they read contexts from a memory: plain or folded."""

from typing import Any

import tensorflow as tf

from memattn.attention import sparse
from memattn.attention.sparse import SparseScores
from memattn.models.dropout import dropout, of_step, split

_ATTENTION = 1  # makes the attention's seed of a step's


class Stepper:
    """Runs a decoder step by step, for Q queries that share one memory; made by the decoder's `stepper` method.

    Args:
      attention: the mechanism, or its `for_search`.
      memory: the mechanism's memory of the source.
      reader: reads contexts from the memory.
    """

    def __init__(self, *, attention, memory, reader):
        self._attention, self._memory, self._reader = attention, memory, reader

    def initial_state(self, cells: list, num_queries: int) -> dict[str, Any]:
        """The state before the first step; each tensor [B, Q, ...].

        `cells` holds the state of each layer, tensors [B, U]; all Q = num_queries queries of a source start from it.
        """
        return {
            "cells": [[tf.repeat(part[:, None], num_queries, 1) for part in cell] for cell in cells],
            "attention": self._attention.initial_state(self._memory, num_queries),
        }

    def __call__(
        self, gates: tf.Tensor, state: dict, seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, dict]:
        """One step for what the decoder's `gates` [B, Q, G] gives for the inputs.

        Returns outputs [B, Q, ...] and contexts (both for `read_out`), the scores [B, Q, M], and the next state.
        """
        raise NotImplementedError

    def read_out(self, outputs: tf.Tensor, contexts: tf.Tensor) -> tf.Tensor:
        """The output layer's input [B, Q, F]."""
        raise NotImplementedError

    def read(
        self, queries: tf.Tensor, state: Any, seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, Any]:
        """Scores [B, Q, M] of queries [B, Q, U], what the reader reads with them, the mechanism's next state."""
        values = self._memory["values"]
        scores, state = self._attention.score(queries, self._memory, state, of_step(seed, _ATTENTION))
        every = sparse.dense(scores, tf.shape(values)[1])  # of sparse scores, a graph computes it if it is asked for
        return tf.ensure_shape(every, [None, None, values.shape[1]]), *self._reader.read(scores), state


class LSTMStepper(Stepper):
    """Runs a `Decoder` step by step.

    Args:
      recurrent_kernel: [U, 4U], of the first cell.
      upper: for each further cell, the kernel [2U, 4U] of its input and output, and the bias [4U].
      mix: the mixing layer's kernel [U, U] for the output, and its bias [U]; or None.
      dropout: rate on the input of every cell.
      others: see `Stepper`.
    """

    def __init__(self, *, recurrent_kernel, upper, mix, dropout, **others):
        super().__init__(**others)
        self._recurrent_kernel, self._upper, self._mix, self._dropout = recurrent_kernel, upper, mix, dropout

    def initial_state(self, cells, num_queries):
        hidden = cells[0][0]
        fed = tf.zeros([tf.shape(hidden)[0], num_queries, self._reader.width], hidden.dtype)
        return {**super().initial_state(cells, num_queries), "fed": fed}

    def __call__(self, gates, state, seed=None):
        seeds = split(seed, 1 + len(self._upper))
        (hidden, memory_cell), *upper = state["cells"]
        gates = self._reader.feed(gates, state["fed"], seeds[0]) + tf.tensordot(hidden, self._recurrent_kernel, 1)
        cells = [_lstm(gates, memory_cell)]
        for (kernel, bias), (hidden, memory_cell), own_seed in zip(self._upper, upper, seeds[1:], strict=True):
            inputs = tf.concat([dropout(cells[-1][0], self._dropout, own_seed), hidden], -1)
            cells.append(_lstm(tf.tensordot(inputs, kernel, 1) + bias, memory_cell))
        outputs = cells[-1][0]
        scores, fed, contexts, attention = self.read(outputs, state["attention"], seed)
        return outputs, contexts, scores, {"cells": cells, "attention": attention, "fed": fed}

    def read_out(self, outputs, contexts):
        """tanh(W [h; c]) [B, Q, U], or [h; c]."""
        contexts = self._reader.mix(contexts)
        if self._mix is None:
            return tf.concat([outputs, contexts], -1)
        kernel, bias = self._mix
        return tf.tanh(tf.tensordot(outputs, kernel, 1) + contexts + bias)


def run_steps(
    stepper: Stepper, gates: tf.Tensor, cells: list, seed: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """All steps, one after the other, of gates [B, T, G] from the state `cells`.

    Returns outputs [B, T, ...] and contexts, both for `read_out`, and scores [B, T, M].
    """
    steps = gates.shape[1] if gates.shape[1] is not None else tf.shape(gates)[1]
    gates = tf.transpose(gates, [1, 0, 2])[:, :, None]  # [T, B, 1, G]
    gates = tf.TensorArray(gates.dtype, steps).unstack(gates)  # the gradient of a read is one step's
    state = stepper.initial_state(cells, 1)
    results = [tf.TensorArray(gates.dtype, steps) for _ in range(3)]

    def step(time, state, results):
        *values, state = stepper(gates.read(time), state, of_step(seed, time))
        return (
            time + 1,
            state,
            [array.write(time, value[:, 0]) for array, value in zip(results, values, strict=True)],
        )

    _, _, results = tf.while_loop(lambda time, *_: time < steps, step, (0, state, results), maximum_iterations=steps)
    outputs, contexts, scores = (tf.transpose(array.stack(), [1, 0, 2]) for array in results)
    return outputs, contexts, scores


def _lstm(gates: tf.Tensor, memory_cell: tf.Tensor) -> list[tf.Tensor]:
    """The next h and c of gates [B, Q, 4U] in Keras' order i, f, c, o."""
    i, f, candidate, o = tf.split(gates, 4, -1)
    memory_cell = tf.sigmoid(f) * memory_cell + tf.sigmoid(i) * tf.tanh(candidate)
    return [tf.sigmoid(o) * tf.tanh(memory_cell), memory_cell]


class Reader:
    """Reads contexts c = scores @ values (Eqs. 1 and 6).

    Args:
      values: [B, M, D].
      feed_kernel: [D, G], multiplies a context for the next step's input; None without input feeding.
      mix_kernel: [D, F], multiplies a context for the output layer; None passes it on unchanged.
      rate: dropout on the contexts that are fed to the next step.

    Attributes:
      width: of what `read` passes to the next step.
    """

    def __init__(
        self,
        values: tf.Tensor,
        feed_kernel: tf.Tensor | None,
        mix_kernel: tf.Tensor | None,
        rate: float = 0.0,
    ):
        self._values, self._feed_kernel, self._mix_kernel, self._rate = values, feed_kernel, mix_kernel, rate
        self.width = 0 if feed_kernel is None else feed_kernel.shape[0]

    def read(self, scores: tf.Tensor | SparseScores) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads by scores [B, Q, M]: [B, Q, width] for `feed` in the next step, and the input of `mix` in this one."""
        return self._parts(sparse.contexts(scores, self._values))

    def _parts(self, contexts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return contexts[:, :, : self.width], contexts

    def feed(self, gates: tf.Tensor, fed: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """Gates [B, Q, 4U] plus what the previous step's contexts add to them."""
        return gates + tf.tensordot(dropout(fed, self._rate, seed), self._feed_kernel, 1) if self.width else gates

    def mix(self, contexts: tf.Tensor) -> tf.Tensor:
        """What contexts add to the output layer's input [B, Q, F]."""
        return contexts if self._mix_kernel is None else tf.tensordot(contexts, self._mix_kernel, 1)


class FoldedReader(Reader):
    """Reads scores @ (values @ kernels) in place of (scores @ values) @ kernels; its `width` is G.

    This takes M * (G + F) multiply-adds per query, not M * D + D * (G + F); it pays if many queries share values.
    """

    def __init__(self, values: tf.Tensor, feed_kernel: tf.Tensor | None, mix_kernel: tf.Tensor | None):
        super().__init__(values, feed_kernel, mix_kernel)
        fed = values[:, :, :0] if feed_kernel is None else tf.tensordot(values, feed_kernel, 1)
        self.width = fed.shape[-1]
        self._values = tf.concat([fed, super().mix(values)], -1)  # [B, M, G + F]

    def _parts(self, contexts):
        return contexts[:, :, : self.width], contexts[:, :, self.width :]

    def feed(self, gates, fed, seed):
        del seed
        return gates + fed if self.width else gates

    def mix(self, contexts):
        return contexts


def make_reader(
    values: tf.Tensor, feed_kernel: tf.Tensor | None, mix_kernel: tf.Tensor | None, rate: float, *, fold: bool
) -> Reader:
    """A reader of values [B, M, D]; with `fold`, a folded one if that takes fewer multiply-adds per query.

    There is then no dropout.
    """
    kernels = feed_kernel, mix_kernel
    if fold and _folding_pays(*values.shape[1:], *kernels):
        return FoldedReader(values, *kernels)
    return Reader(values, *kernels, rate=rate)


def _folding_pays(slots: int | None, width: int, feed_kernel: tf.Tensor | None, mix_kernel: tf.Tensor | None) -> bool:
    """Whether a query costs fewer multiply-adds with M = `slots` folded rows than with rows of D = `width`."""
    if slots is None:
        return False
    fed, mixed = (0 if kernel is None else kernel.shape[1] for kernel in (feed_kernel, mix_kernel))
    folded = fed + (width if mix_kernel is None else mixed)
    return slots * folded < slots * width + width * (fed + mixed)
