"""Dropout and seeds: masks come from a seed, so that a resumed run draws what an uninterrupted run would."""

import tensorflow as tf

from memattn.attention.ops import GENERATOR

ATTENTION_SEED, SOURCE_SEED = 1, 2  # numbers for `fold_in`: uses of a seed beside its first, which takes it as it is


def dropout(inputs: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Drops each element of `inputs` with probability `rate`, so that every time step of [B, T, D] has a fresh mask.

    `seed` [2] is None outside training: nothing is dropped.
    """
    if seed is None or rate == 0:
        return inputs
    return tf.nn.experimental.stateless_dropout(inputs, rate, seed, rng_alg=GENERATOR)


def fold_in(seed: tf.Tensor | None, number: int | tf.Tensor) -> tf.Tensor | None:
    """Returns the seed of the step or use with this number; None if `seed` is None."""
    return None if seed is None else tf.random.experimental.stateless_fold_in(seed, number)


def split_seed(seed: tf.Tensor | None, count: int) -> list[tf.Tensor | None]:
    """Returns independent seeds, one per use; all None if `seed` is None."""
    return [None] * count if seed is None else tf.unstack(tf.random.experimental.stateless_split(seed, count))
