"""Decides whether XLA compiles a model's graphs."""

import tensorflow as tf


def has_gpu() -> bool:
    """Returns whether TensorFlow computes on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def jit_compile(choice: bool | str, compute_dtype: str = "float32") -> bool:
    """Returns whether to compile; "auto" chooses what was faster in measurements of this project.

    XLA was faster from TensorFlow 2.20 on. The exception is bfloat16 on a CPU that has instructions for it:
    TensorFlow's matrix products then take half as long as in float32, and XLA's take as long as in float32.

    Args:
      choice: true, false or "auto".
      compute_dtype: type that the model computes in.
    """
    if choice != "auto":
        return bool(choice)
    version = tuple(map(int, tf.__version__.split(".")[:2]))
    return version >= (2, 20) and (has_gpu() or compute_dtype != "bfloat16")
