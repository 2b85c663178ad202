"""A list that collects a tensor in each step of a loop, in place of a TensorArray.

The gradient of `TensorArray.write` reads an element, then sets it to 0, for which XLA copies the tensors of all steps
in each step. The gradient of a list only reads.
"""

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
