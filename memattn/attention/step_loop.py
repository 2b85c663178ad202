"""A loop over steps, and a list that collects a tensor in each step, in place of a TensorArray.

The gradient of `TensorArray.write` reads an element, then sets it to 0, for which XLA copies the tensors of all steps
in each step. The gradient of a list only reads.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


class StepList:
    """Collects a tensor of the same shape in each step of a `tf.while_loop`.

    The loop hands a handle from step to step: first `empty`, then what `append` returned.

    Args:
      dtype: type of the tensors.
      steps: number of steps, at least 1.
    """

    def __init__(self, dtype: tf.DType, steps: int | tf.Tensor):
        self._dtype, self._shape = dtype, tf.TensorShape(None)
        self._steps = steps if isinstance(steps, int) else -1
        self.empty = tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=steps, element_dtype=dtype)

    def append(self, handle: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
        """Returns the handle of a list with one more tensor."""
        self._shape = tensor.shape
        return tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=tensor)

    def stack(self, handle: tf.Tensor) -> tf.Tensor:
        """Returns the tensors of all steps [T, ...]."""
        shape = [-1 if size is None else size for size in self._shape]
        return tf.raw_ops.TensorListStack(
            input_handle=handle, element_shape=shape, element_dtype=self._dtype, num_elements=self._steps
        )


def run_loop(
    step: Callable[[tf.Tensor, tf.Tensor, Any], tuple[Sequence[tf.Tensor], Any]],
    state: Any,
    inputs: tf.Tensor,
    *,
    num_outputs: int,
    dtype: tf.DType,
) -> list[tf.Tensor]:
    """Calls `step` for each of T inputs [B, T, ...] in order, and returns the outputs of all calls.

    Args:
      step: gets the number of the step, its inputs [B, 1, ...] and the state; returns outputs [B, 1, F], which may
        differ in F, and the next state.
      state: the initial state.
      inputs: [B, T, ...].
      num_outputs: number of outputs of a step.
      dtype: type of the outputs.

    Returns:
      A tensor [B, T, F] for each output of `step`.
    """
    steps = inputs.shape[1] if inputs.shape[1] is not None else tf.shape(inputs)[1]
    by_step = tf.transpose(inputs, [1, 0, *range(2, inputs.shape.rank)])[:, :, None]
    by_step = tf.TensorArray(inputs.dtype, steps).unstack(by_step)  # inputs[:, time] has a gradient of T steps
    lists = [StepList(dtype, steps) for _ in range(num_outputs)]

    def body(time, state, handles):
        outputs, state = step(time, by_step.read(time), state)
        tensors = zip(lists, handles, outputs, strict=True)
        return time + 1, state, [step_list.append(handle, output[:, 0]) for step_list, handle, output in tensors]

    loop = (0, state, [step_list.empty for step_list in lists])
    _, _, handles = tf.while_loop(lambda time, *_: time < steps, body, loop, maximum_iterations=steps)
    stacks = [step_list.stack(handle) for step_list, handle in zip(lists, handles, strict=True)]
    return [tf.transpose(stack, [1, 0, 2]) for stack in stacks]
