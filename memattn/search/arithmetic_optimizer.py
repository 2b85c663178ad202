"""Switches TensorFlow's arithmetic optimizer off while searches run.

The optimizer fuses sums of three terms into one operation. When short of memory, TensorFlow computes that operation in
a temporary variable, which concurrent batches confuse with each other's (tensorflow#33713).
"""

import threading

import tensorflow as tf

_OPTION = "arithmetic_optimization"


class WithoutArithmeticOptimizer:
    """A context in which the optimizer is off; any number of threads may be inside."""

    def __init__(self):
        self._lock, self._inside, self._setting = threading.Lock(), 0, None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._setting = tf.config.optimizer.get_experimental_options().get(_OPTION)
            self._inside += 1
            _set(False)

    def __exit__(self, *_) -> None:
        with self._lock:
            self._inside -= 1
            _set(False if self._inside else self._setting)


def _set(value: bool | None) -> None:
    """Sets the option; None sets its default.

    Every thread must call this function: TensorFlow keeps the options of a thread until that thread sets them.
    """
    tf.config.optimizer.set_experimental_options({_OPTION: value})


WITHOUT_ARITHMETIC_OPTIMIZER = WithoutArithmeticOptimizer()
