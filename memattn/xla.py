"""Decides how TensorFlow runs a model's graphs: by XLA's kernels, cuDNN's, or those of every device."""

import contextlib
import contextvars
import threading
from collections.abc import Iterator

import tensorflow as tf

_portable = contextvars.ContextVar("portable", default=False)
_OPTION = "arithmetic_optimization"
_lock, _depth, _setting = threading.Lock(), 0, None  # of `without_arithmetic_optimizer`


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

    XLA was faster from TensorFlow 2.20 on. The exception is bfloat16 on a CPU: where the CPU has instructions for it,
    TensorFlow's matrix products take half as long as in float32, and XLA's take as long as in float32.
    """
    if choice != "auto":
        return bool(choice)
    version = tuple(map(int, tf.__version__.split(".")[:2]))
    return version >= (2, 20) and (has_gpu() or compute_dtype != "bfloat16")


@contextlib.contextmanager
def without_arithmetic_optimizer() -> Iterator[None]:
    """Switches TensorFlow's arithmetic optimizer off; any number of threads may be inside.

    The optimizer fuses sums of three terms into one operation. When short of memory, TensorFlow computes that operation
    in a temporary variable, which concurrent batches confuse with each other's (tensorflow#33713).
    """
    global _depth, _setting
    with _lock:
        if not _depth:
            _setting = tf.config.optimizer.get_experimental_options().get(_OPTION)
        _depth += 1
        tf.config.optimizer.set_experimental_options({_OPTION: False})  # every thread must, for itself
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            tf.config.optimizer.set_experimental_options({_OPTION: False if _depth else _setting})
