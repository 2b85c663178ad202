"""Tensor functions of the layers where Keras runs on TensorFlow: TensorFlow's own, by the names of keras.ops.

Keras 2 has no keras.ops. With Keras 3, a graph of these functions is smaller than one of keras.ops.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow import (
    Tensor,
    Variable,
    abs,
    argsort,
    broadcast_to,
    convert_to_tensor,
    cumsum,
    einsum,
    ensure_shape,
    exp,
    expand_dims,
    init_scope,
    matmul,
    maximum,
    minimum,
    one_hot,
    ones,
    ones_like,
    pad,
    reshape,
    shape,
    sigmoid,
    square,
    stack,
    tanh,
    transpose,
    where,
    while_loop,
    zeros,
    zeros_like,
)
from tensorflow.math import cumulative_logsumexp, divide_no_nan, log, rsqrt
from tensorflow.nn import relu, softmax

arange, any, max, min, sum = tf.range, tf.reduce_any, tf.reduce_max, tf.reduce_min, tf.reduce_sum
clip, take = tf.clip_by_value, tf.gather
map_structure = tf.nest.map_structure
fold_in = tf.random.experimental.stateless_fold_in

COMPILES_RECURRENCE = False  # XLA cannot compile the gradient of a loop over an unknown number of queries
# Random-number algorithm. It draws the same numbers as TensorFlow's default, a hundred times faster under XLA on a CPU.
GENERATOR = "philox"


def cast(x: Any, dtype: Any) -> Tensor:
    """Returns a tensor, an array, or a weight of Keras 2 or 3, as a tensor of type `dtype`."""
    return tf.cast(tf.convert_to_tensor(x), dtype)


def dtype_name(dtype: Any) -> str:
    """Returns the name of a dtype, such as "float32"."""
    return tf.as_dtype(dtype).name


def gather(x: Tensor, positions: Tensor) -> Tensor:
    """Returns x[b, positions[b]] for each b of the batch."""
    return tf.gather(x, positions, batch_dims=1)


def unify_shapes(*tensors: Tensor) -> None:
    """Gives tensors of equal shapes what is known of the shape of each; a loop must keep its shapes."""
    merged = tensors[0].shape
    for x in tensors:
        merged = merged.merge_with(x.shape)
    for x in tensors:
        x.set_shape(merged)


def seed_generator() -> None:
    """Returns the state from which `draw_seed` draws: none, since TensorFlow's generators keep their own."""


def draw_seed(generator: None) -> Tensor:
    """Returns a random seed [2]."""
    return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)


def normal(sizes: Any, seed: Tensor, dtype: Any) -> Tensor:
    """Returns numbers from the standard normal distribution, the same for the same seed [2]."""
    return tf.random.stateless_normal(sizes, seed, dtype=dtype, alg=GENERATOR)


def run_loop(
    step: Callable[[tf.Tensor, tf.Tensor, Any], tuple[Sequence[tf.Tensor], Any]],
    state: Any,
    inputs: tf.Tensor,
    *,
    num_outputs: int,
    dtype: tf.DType,
) -> list[tf.Tensor]:
    """Calls `step` for each of T inputs [B, T, ...] in order; returns a tensor [B, T, F] for each of its outputs.

    `step` gets the number of the step, its inputs [B, 1, ...] and the state. It returns `num_outputs` outputs [B, 1, F]
    of type `dtype`, which may differ in F, and the next state.
    """
    steps = inputs.shape[1] if inputs.shape[1] is not None else tf.shape(inputs)[1]
    by_step = tf.transpose(inputs, [1, 0, *range(2, inputs.shape.rank)])[:, :, None]
    by_step = tf.TensorArray(inputs.dtype, steps).unstack(by_step)  # inputs[:, time] has a gradient of T steps
    # Lists collect the outputs. The gradient of `TensorArray.write` reads an element, then sets it to 0, for which XLA
    # copies the tensors of all steps in each step. The gradient of a list only reads.
    empty = tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=steps, element_dtype=dtype)
    shapes: list[list[int]] = []

    def body(time, state, lists):
        outputs, state = step(time, by_step.read(time), state)
        outputs = [output[:, 0] for output in outputs]
        shapes[:] = [[-1 if size is None else size for size in output.shape] for output in outputs]
        pairs = zip(lists, outputs, strict=True)
        lists = [tf.raw_ops.TensorListPushBack(input_handle=each, tensor=output) for each, output in pairs]
        return time + 1, state, lists

    loop = (0, state, [empty] * num_outputs)
    _, _, lists = tf.while_loop(lambda time, *_: time < steps, body, loop, maximum_iterations=steps)
    options = {"element_dtype": dtype, "num_elements": steps if isinstance(steps, int) else -1}
    pairs = zip(lists, shapes, strict=True)
    stacks = [tf.raw_ops.TensorListStack(input_handle=each, element_shape=size, **options) for each, size in pairs]
    return [tf.transpose(outputs, [1, 0, 2]) for outputs in stacks]
