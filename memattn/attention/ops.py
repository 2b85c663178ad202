"""Tensor functions that several mechanisms and models use."""

from typing import Any

import tensorflow as tf

# Algorithm of random numbers. It draws what TensorFlow's default draws, but XLA takes a hundred times as long for the
# default on CPUs.
GENERATOR = "philox"


def real_first(values: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Values [B, S, D] and their mask [B, S] with the real positions first, and where each position went [B, S].

    Both the real positions and the others keep their order.
    """
    real = tf.cast(mask, tf.int32)
    counts = tf.reduce_sum(real, 1, keepdims=True)
    places = tf.where(mask, tf.cumsum(real, 1), counts + tf.cumsum(1 - real, 1)) - 1
    order = tf.argsort(places, 1)
    return tf.gather(values, order, batch_dims=1), tf.range(tf.shape(mask)[1]) < counts, places


def cast(weight: Any, dtype: Any) -> tf.Tensor:
    """A weight, of any of Keras' kinds, as a tensor of that type."""
    return tf.cast(tf.convert_to_tensor(weight), dtype)


def accurate(dtype: Any) -> tf.DType:
    """The type of sums and positions for tensors of `dtype`: float32, or float64 for float64."""
    return tf.float64 if tf.as_dtype(dtype) == tf.float64 else tf.float32


def masked_softmax(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Softmax over the last axis where `mask` is true, 0 elsewhere; 0 everywhere if all of `mask` is false."""
    lowest = tf.constant(logits.dtype.min / 2, logits.dtype)
    return tf.where(mask, tf.nn.softmax(tf.where(mask, logits, lowest)), tf.zeros([], logits.dtype))


def products(queries: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
    """h . k [B, Q, M] of queries [B, Q, U] and keys [B, M, U]. Raises ValueError for queries of another width."""
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(f"units: {keys.shape[-1]}, but the queries are {queries.shape[-1]} wide; they must be equal")
    return tf.matmul(queries, keys, transpose_b=True)


def additive_energies(queries: tf.Tensor, keys: tf.Tensor, v: tf.Variable) -> tf.Tensor:
    """v . tanh(q + k) [B, Q, M] of projected queries [B, Q, U] and keys [B, M, U] (Bahdanau et al., 2015)."""
    return tf.einsum("bqmu,u->bqm", tf.tanh(queries[:, :, None] + keys[:, None]), cast(v, queries.dtype))
