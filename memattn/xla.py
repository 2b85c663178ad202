"""Decides whether XLA compiles a model's graphs."""

import tensorflow as tf


def jit_compile(choice: bool | str, compute_dtype: str = "float32") -> bool:
    """Returns a choice of `jit_compile`; "auto" is true where XLA was measured to be faster.

    XLA was faster from TensorFlow 2.20 on. The exception is bfloat16 on a CPU: XLA's matrix products then take as long
    as in float32, and TensorFlow's take half of that, where the CPU has instructions for bfloat16.

    Args:
      choice: true, false or "auto".
      compute_dtype: type that the model computes in.
    """
    if isinstance(choice, bool):
        return choice
    on_cpu = not tf.config.list_logical_devices("GPU")
    version = tuple(map(int, tf.__version__.split(".")[:2]))
    return version >= (2, 20) and not (on_cpu and compute_dtype == "bfloat16")
