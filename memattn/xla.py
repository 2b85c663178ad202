"""Whether XLA compiles."""

import tensorflow as tf


def jit_compile(choice: bool | str) -> bool:
    """`auto` as measured: XLA wins from TensorFlow 2.20 on and loses before."""
    return tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 20) if choice == "auto" else choice
