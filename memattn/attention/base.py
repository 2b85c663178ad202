"""The interface of every attention mechanism: the mechanism scores, the decoder reads."""

from typing import Any

import tensorflow as tf


class AttentionMechanism(tf.keras.layers.Layer):
    """Scores the rows of a memory that is made once a source.

    B batch, S source length, M memory rows, D width of an encoder state, Q queries that share one source (1 in greedy
    decoding, the beam size in beam search, T in teacher forcing), U width of a query. The decoder reads
    `context = scores @ memory["values"]`, so what a step needs of the source is in the memory and in nothing else.
    """

    def __init_subclass__(cls, **kwargs):
        """Makes every mechanism known to Keras' serialization."""
        super().__init_subclass__(**kwargs)
        tf.keras.utils.register_keras_serializable("memattn")(cls)

    num_slots: int | None = None
    """Rows of a memory of fixed size; None where the memory has a row for each source position."""

    def memorize(self, states: tf.Tensor, mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """What the decoder steps need of encoder states [B, S, D], of which `mask` [B, S] marks the real ones.

        A row that fills up a batch has none, and its scores must be finite all the same, as `masked_softmax` makes
        them. Every tensor is batch-leading; "values" is [B, M, D].
        """
        raise NotImplementedError

    def initial_state(self, memory: dict[str, tf.Tensor], num_queries: int) -> Any:
        """What a recurrent mechanism carries from step to step, each tensor [B, Q, ...]; () for all others."""
        del memory, num_queries
        return ()

    def call(self, query: tf.Tensor, memory: dict[str, tf.Tensor], state: Any = ()) -> tuple[tf.Tensor, Any]:
        """Scores [B, Q, M] of queries [B, Q, U], and the next state."""
        raise NotImplementedError

    def alignments(self, memory: dict[str, tf.Tensor], scores: tf.Tensor) -> tf.Tensor:
        """Scores [B, Q, M] as weights of the source positions [B, Q, S]; linear in the scores. For pictures."""
        del memory
        return scores

    def get_build_config(self) -> None:
        """Nothing to build from: weights are made when a memory is first made and read, not from one input shape."""


def masked_softmax(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Softmax over the last axis where `mask` is true, 0 elsewhere; 0 everywhere if nothing is true."""
    lowest = tf.constant(logits.dtype.min / 2, logits.dtype)
    return tf.where(mask, tf.nn.softmax(tf.where(mask, logits, lowest)), tf.zeros([], logits.dtype))
