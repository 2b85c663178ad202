"""The memory of K slots. If the padded length S is static and below K, it holds the S states instead.

Slots are C = alpha^T s, and a decoder step reads c = beta C. Since beta (alpha^T s) = (beta alpha^T) s, a step may as
well read the states s by beta alpha^T: the context is the same, read from S vectors instead of K.
"""

import tensorflow as tf


def slot_memory(slots: tf.Tensor, alpha: tf.Tensor, states: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the memory whose "values" are the slots C [B, K, D], or the states [B, S, D] if S is static and below K.

    `alpha` [B, S, K] holds the weights that made the slots.
    """
    is_short = states.shape[1] is not None and states.shape[1] < slots.shape[1]
    return {"values": states, "alpha_of_states": alpha} if is_short else {"values": slots, "alpha": alpha}


def value_scores(beta: tf.Tensor, memory: dict[str, tf.Tensor]) -> tf.Tensor:
    """Returns the scores of memory["values"] [B, Q, M] for the weights beta [B, Q, K] of the slots."""
    if "alpha_of_states" in memory:
        return tf.matmul(beta, memory["alpha_of_states"], transpose_b=True)
    return beta


def source_weights(scores: tf.Tensor, memory: dict[str, tf.Tensor]) -> tf.Tensor:
    """Returns the weights beta alpha^T of the source positions [B, Q, S], for scores that `value_scores` returned."""
    if "alpha_of_states" in memory:
        return scores
    return tf.matmul(scores, memory["alpha"], transpose_b=True)
