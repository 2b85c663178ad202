"""Decides which kernels a model's graphs have: XLA's, cuDNN's, or those of every device."""

import contextlib
import contextvars
from collections.abc import Iterator

import tensorflow as tf

_portable = contextvars.ContextVar("portable", default=False)


@contextlib.contextmanager
def portable() -> Iterator[None]:
    """Makes all graphs that are traced meanwhile independent of this machine's devices."""
    token = _portable.set(True)
    try:
        yield
    finally:
        _portable.reset(token)


def uses_cudnn() -> bool:
    """Returns whether a graph that is traced now runs LSTMs by cuDNN, which only GPUs have."""
    return has_gpu() and not _portable.get()


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
