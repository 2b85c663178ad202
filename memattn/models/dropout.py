"""Dropout whose mask comes from a given seed, so that a resumed run draws what an uninterrupted one would."""

import tensorflow as tf

from memattn.attention.ops import GENERATOR


def dropout(inputs: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Drops elements of `inputs` with probability `rate`; `seed` [2] is None outside training.

    On a sequence [B, T, D], each time step has its own mask.
    """
    if seed is None or rate == 0:
        return inputs
    return tf.nn.experimental.stateless_dropout(inputs, rate, seed, rng_alg=GENERATOR)


def of_step(seed: tf.Tensor | None, step: int | tf.Tensor) -> tf.Tensor | None:
    """The seed of one step, or use; None if `seed` is None."""
    return None if seed is None else tf.random.experimental.stateless_fold_in(seed, step)


def split(seed: tf.Tensor | None, num: int) -> list[tf.Tensor | None]:
    """Independent seeds, one per use; all None if `seed` is None."""
    return [None] * num if seed is None else tf.unstack(tf.random.experimental.stateless_split(seed, num))
