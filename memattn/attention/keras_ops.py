"""Tensor functions of the layers where Keras runs on JAX or PyTorch: those of keras.ops, and what these lack."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import KerasTensor as Tensor
from keras import Variable, ops
from keras.backend import standardize_dtype as dtype_name
from keras.ops import *
from keras.tree import map_structure

COMPILES_RECURRENCE = True  # XLA compiles a loop over queries
init_scope = contextlib.nullcontext
seed_generator = keras.random.SeedGenerator


def cumsum(x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Returns the sums up to each item, or up to the one before; if `reverse`, from the last item on."""
    if reverse:
        return ops.flip(cumsum(ops.flip(x, axis), axis, exclusive), axis)
    sums = ops.cumsum(x, axis)
    return sums - x if exclusive else sums


def cumulative_logsumexp(x: Tensor, axis: int) -> Tensor:
    """Returns the logarithms of the sums of exp(x) up to each item."""
    return ops.associative_scan(ops.logaddexp, x, axis=axis)


def ensure_shape(x: Tensor, sizes: Any) -> Tensor:
    """Returns `x`, whose shape is known."""
    return x


def gather(x: Tensor, positions: Tensor) -> Tensor:
    """Returns x[b, positions[b]] for each b of the batch."""
    batch = ops.arange(x.shape[0], dtype="int32")
    return x[ops.reshape(batch, [-1] + [1] * (len(positions.shape) - 1)), positions]


def matmul(x: Tensor, y: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """Returns products of matrices, of which either may be transposed first."""
    x = ops.swapaxes(x, -1, -2) if transpose_a else x
    return ops.matmul(x, ops.swapaxes(y, -1, -2) if transpose_b else y)


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Returns the softmax; keras.ops.softmax would warn of an axis of one item, such as a memory of one slot."""
    return ops.exp(ops.log_softmax(x, axis))


def unify_shapes(*tensors: Tensor) -> None:
    """Does nothing: shapes are known."""


def draw_seed(generator: keras.random.SeedGenerator) -> Tensor:
    """Returns a random seed [2]."""
    return generator.next()


def fold_in(seed: Tensor, step: Any) -> Tensor:
    """Returns a seed [2] for each of several steps. `draw_seed` counts with the second number."""
    return ops.stack([seed[0] + ops.cast(step, seed.dtype), seed[1]])


def normal(sizes: Any, seed: Any, dtype: Any) -> Tensor:
    """Returns numbers from the standard normal distribution, the same for the same seed [2]."""
    if keras.backend.backend() == "torch":  # wants an int
        seed = (int(seed[0]) + 1_000_003 * int(seed[1])) % 2**31
    else:
        seed = ops.cast(seed, "uint32")  # the type of a key of JAX
    return keras.random.normal(sizes, dtype=dtype, seed=seed)


def run_loop(
    step: Callable[[Any, Tensor, Any], tuple[Sequence[Tensor], Any]],
    state: Any,
    inputs: Tensor,
    *,
    num_outputs: int,
    dtype: Any,
) -> list[Tensor]:
    """Calls `step` for each of T inputs in order; see `run_loop` of tensorflow_ops.py."""

    def scanned(state, inputs):
        outputs, state = step(*inputs, state)
        return state, tuple(output[:, 0] for output in outputs)

    by_step = ops.swapaxes(inputs, 0, 1)[:, :, None]  # [T, B, 1, ...]
    _, outputs = ops.scan(scanned, state, (ops.arange(inputs.shape[1], dtype="int32"), by_step))
    return [ops.swapaxes(output, 0, 1) for output in outputs]
