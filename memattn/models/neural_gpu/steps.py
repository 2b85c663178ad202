"""Steps of active memory: each changes all positions of a memory, and a memory of n positions has n steps."""

from collections.abc import Sequence

import tensorflow as tf

from memattn.models.dropout import fold_in, split_seed
from memattn.models.neural_gpu.cells import Cell


def run_steps(cells: Sequence[Cell], memory: tf.Tensor, lengths: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
    """Returns a memory [B, N, w, m] after n steps, where each source has its own n in `lengths` [B].

    `seed` [2] turns dropout on.
    """
    steps, maximum = tf.reduce_max(lengths), memory.shape[1]

    def step(time, memory):
        return time + 1, next_memory(cells, time, memory, lengths, seed)

    return tf.while_loop(lambda time, _: time < steps, step, (0, memory), maximum_iterations=maximum)[1]


def next_memory(
    cells: Sequence[Cell],
    time: int | tf.Tensor,
    memory: tf.Tensor,
    lengths: tf.Tensor,
    seed: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the memory [B, N, w, m] after step `time`, counted from 0; a source with fewer steps keeps its memory."""
    changed = run_cells(cells, memory, lengths, None, fold_in(seed, time))
    return tf.where((time < lengths)[:, None, None, None], changed, memory)


def run_cells(
    cells: Sequence[Cell],
    memory: tf.Tensor,
    lengths: tf.Tensor,
    tapes: Sequence[tf.Tensor] | None,
    seed: tf.Tensor | None,
) -> tf.Tensor:
    """Returns the memory after each of the cells in turn; `tapes` holds W * p for each cell, or is None."""
    for i, (cell, cell_seed) in enumerate(zip(cells, split_seed(seed, len(cells)), strict=True)):
        memory = cell(memory, lengths, None if tapes is None else tapes[i], cell_seed)
    return memory
