"""Small attention layers and random inputs for them."""

import numpy as np
import tensorflow as tf

from memattn import attention

KERAS_3 = not hasattr(tf.keras, "__internal__")
B, T, S, D = 2, 3, 5, 8  # queries are as wide as values, because luong_dot requires it
FACTS = {"units": D, "max_source_length": S}


def make(name, options, **kwargs):
    """An attention layer; each call gives the same weights."""
    tf.keras.utils.set_random_seed(3)
    return attention.build(name, {**options, **kwargs}, **FACTS)


def random(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def array(value):
    return tf.convert_to_tensor(value).numpy()
