"""Keeps the hypotheses of a search from having the same n-gram twice.

A history holds the tokens of k hypotheses of each of B sources, [B, k, L]; -1 where there is no token yet.
"""

import tensorflow as tf


def extend_history(history: tf.Tensor, tokens: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
    """Returns the history with the tokens [B, k] that step `time` reads; those of step 0 are not stored."""
    return tf.where(tf.range(tf.shape(history)[2]) == time - 1, tokens[:, :, None], history)


def repeating_tokens(history: tf.Tensor, time: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns tokens [B, k, W] of a history, and which of them would repeat an n-gram of `size` tokens in step `time`.

    A token would repeat an n-gram if the `size` - 1 tokens before it in the history equal the hypothesis' last tokens.
    """
    windows = tf.maximum(tf.shape(history)[2] - size + 1, 0)  # W
    last_of_window = history[:, :, size - 1 :]
    repeats = last_of_window >= 0
    for position in range(size - 1):
        token = tf.gather(history, tf.maximum(time - size + 1 + position, 0), axis=2)  # [B, k]
        repeats &= history[:, :, position : position + windows] == token[:, :, None]
    return last_of_window, repeats & (time >= size)


def forbid_tokens(values: tf.Tensor, tokens: tf.Tensor, repeats: tf.Tensor) -> tf.Tensor:
    """Returns values [B, k, V], with -inf for each of the tokens [B, k, W] where `repeats` [B, k, W] is true."""
    shape = tf.shape(values)
    rows = shape[0] * shape[1]
    tokens, repeats = (tf.reshape(x, tf.concat([[rows], tf.shape(x)[2:]], 0)) for x in (tokens, repeats))  # [B k, W]
    positions = tf.stack(
        [tf.broadcast_to(tf.range(rows)[:, None], tf.shape(tokens)), tf.maximum(tokens, 0)], -1
    )  # [B k, W, 2]
    addends = tf.where(repeats, tf.constant(-float("inf"), values.dtype), tf.zeros([], values.dtype))
    changed = tf.tensor_scatter_nd_add(tf.reshape(values, [-1, shape[2]]), positions, addends)
    return tf.ensure_shape(tf.reshape(changed, shape), values.shape)
