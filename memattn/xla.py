"""Whether XLA compiles."""

import tensorflow as tf


def jit_compile(choice: bool | str, compute_dtype: str = "float32") -> bool:
    """Resolves `auto`: XLA where it was measured to be faster for a model that computes in `compute_dtype`.

    It was from TensorFlow 2.20 on.

    XLA was not faster in bfloat16 on CPUs: its matrix products take as long as in float32, TensorFlow's own half of
    that where the CPU has instructions for bfloat16.
    """
    if choice != "auto":
        return choice
    on_cpu = not tf.config.list_logical_devices("GPU")
    return tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 20) and not (on_cpu and compute_dtype == "bfloat16")
