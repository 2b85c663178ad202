"""Whether XLA compiles."""

import tensorflow as tf


def jit_compile(choice: bool | str) -> bool:
    """Resolves `auto`: XLA from TensorFlow 2.20 on, where it was measured to be faster, and not before."""
    return tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 20) if choice == "auto" else choice
