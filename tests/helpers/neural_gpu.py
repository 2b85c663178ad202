"""Small Neural GPUs, and a source with its target."""

import numpy as np
import tensorflow as tf

from memattn.data.vocabulary import EOS, PAD
from memattn.models.neural_gpu.model import KINDS

V, M = 9, 6
SOURCE, TARGET = [4, 5, 6, EOS], [7, 4, 8, 5, EOS]


def make_model(kind, cell="cgru", width=4, **changes):
    """A Neural GPU with random weights and biases; each call gives the same."""
    tf.keras.utils.set_random_seed(3)
    model = KINDS[kind](
        vocabulary_size=V,
        max_source_length=6,
        **{"layers": 2, "units": M, "width": width, "cell": cell, "dropout": 0.0, **changes},
    )
    random = np.random.default_rng(8)
    for weight in model.trainable_variables:
        weight.assign(np.array(weight) * 0.5 + random.normal(scale=0.1, size=weight.shape))
    return model


def padded(rows, width):
    """Rows of ids as a batch [B, width]."""
    return tf.constant([row + [PAD] * (width - len(row)) for row in rows])
