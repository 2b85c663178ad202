"""Mechanisms as Keras layers of small sizes."""

import numpy as np
import tensorflow as tf

from memattn import attention

KERAS_3 = not hasattr(tf.keras, "__internal__")
B, T, S, D = 2, 3, 5, 8  # queries as wide as values, as luong_dot wants them
FACTS = {"units": D, "max_source_length": S}


def make(name, options, **kwargs):
    """A layer whose weights are the same at each call."""
    tf.keras.utils.set_random_seed(3)
    return attention.build(name, {**options, **kwargs}, **FACTS)


def random(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def array(value):
    return tf.convert_to_tensor(value).numpy()
