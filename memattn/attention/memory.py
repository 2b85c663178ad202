"""Britz, Guan & Luong (2017), section 3: attention over a memory of fixed size, written while the source is read."""

from typing import Literal

import numpy as np
import tensorflow as tf

from memattn.attention.base import AttentionMechanism
from memattn.attention.initializers import Initializer
from memattn.attention.ops import accurate
from memattn.attention.options import whole

SCORINGS = {"softmax": tf.nn.softmax, "sigmoid": tf.sigmoid}  # over the K slots, the last axis


class MemoryAttention(AttentionMechanism):
    """Adds each encoder state s_t to K slots with weights alpha_t, C = sum_t alpha_t s_t^T; a step reads c = beta C.

    Args:
      num_slots: K, the rows of C; at least 1.
      encoder_scoring: what makes alpha_t of its K logits (Eq. 5): a softmax over the slots, or sigmoid gates.
      decoder_scoring: what makes beta of its K logits (Eq. 7).
      position_encoding: multiply the logits of alpha by the position encodings of Eqs. 8 to 10.
      renormalize: how position encodings are scaled over the real time steps of a source: to a sum of 1 (the paper's
        words taken literally), to a mean of 1, or not at all.
      max_source_length: S of Eq. 10, the longest source of the training set; positions past it count as the last.
        Needed with `position_encoding`.
      initializer: name, config or object, of W_alpha and W_beta.
    """

    def __init__(
        self,
        *,
        num_slots: int = 32,
        encoder_scoring: Literal["softmax", "sigmoid"] = "softmax",
        decoder_scoring: Literal["softmax", "sigmoid"] = "softmax",
        position_encoding: bool = False,
        renormalize: Literal["sum", "mean", "none"] = "sum",
        max_source_length: int | None = None,
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if position_encoding:
            max_source_length = whole("max_source_length (for position_encoding)", max_source_length)
        self.num_slots = whole("num_slots", num_slots)
        self.encoder_scoring, self.decoder_scoring = encoder_scoring, decoder_scoring
        self.position_encoding, self.renormalize = position_encoding, renormalize
        self.max_source_length, self.initializer = max_source_length, initializer
        self.encoder_scores = self._projection(self.num_slots, "encoder_scores")  # W_alpha
        self.decoder_scores = self._projection(self.num_slots, "decoder_scores")  # W_beta

    @classmethod
    def check(cls, *, num_slots, **options):
        super().check(**options)
        whole("num_slots", num_slots)

    def memorize(self, states, mask):
        logits = self.encoder_scores(states)  # [B, S, K], W_alpha s_t
        if self.position_encoding:
            logits = logits * tf.cast(self._position_encodings(mask, accurate(logits.dtype)), logits.dtype)  # Eq. 9
        alpha = SCORINGS[self.encoder_scoring](logits)  # [B, S, K], Eq. 5
        alpha = alpha * tf.expand_dims(tf.cast(mask, alpha.dtype), -1)  # padding adds nothing
        slots = tf.matmul(alpha, states, transpose_a=True)  # C [B, K, D], Eqs. 4 and 8
        return stored(slots, alpha, states)

    def score(self, query, memory, state=(), seed=None):
        beta = SCORINGS[self.decoder_scoring](self.decoder_scores(query))  # [B, Q, K], Eq. 7
        return row_scores(beta, memory), state  # c = scores @ memory["values"], Eq. 6

    def alignments(self, memory, scores):
        if "votes" in memory:
            return scores
        return tf.matmul(scores, memory["alpha"], transpose_b=True)  # [B, Q, S], beta . alpha of Figures 6 to 8

    def _position_encodings(self, mask: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Returns l_s of section 3.2 [B, S, K] for the real positions that `mask` [B, S] marks."""
        table = tf.constant(position_encodings(self.num_slots, self.max_source_length), dtype)
        positions = tf.cumsum(tf.cast(mask, tf.int32), 1) - 1  # of the real ones; -1 before the first
        encodings = tf.gather(table, tf.clip_by_value(positions, 0, self.max_source_length - 1))  # [B, S, K]
        if self.renormalize == "none":
            return encodings
        weights = tf.expand_dims(tf.cast(mask, dtype), -1)  # [B, S, 1]
        encodings = encodings * weights
        totals = tf.reduce_sum(encodings, 1, keepdims=True)  # over time, [B, 1, K]; 0 where all is padding
        shares = tf.math.divide_no_nan(encodings, totals)
        lengths = tf.reduce_sum(weights, 1, keepdims=True)  # [B, 1, 1]
        return shares * lengths if self.renormalize == "mean" else shares


def position_encodings(num_slots: int, max_source_length: int) -> np.ndarray:
    """Returns L of Eq. 10, transposed to [S, K]: (1 - k/K)(1 - s/S) + (k/K)(s/S), k and s counted from 1."""
    k = np.arange(1, num_slots + 1) / num_slots
    s = np.arange(1, max_source_length + 1)[:, None] / max_source_length
    return (1 - k) * (1 - s) + k * s


def stored(slots: tf.Tensor, alpha: tf.Tensor, states: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the memory of slots C [B, K, D], weights alpha [B, S, K] and states [B, S, D].

    beta C = beta (alpha^T s) = (beta alpha^T) s: where a batch is padded to S < K positions, steps read the S states,
    which are fewer rows than C has. The context is the same.
    """
    is_short = states.shape[1] is not None and states.shape[1] < slots.shape[1]
    return {"values": states, "votes": alpha} if is_short else {"values": slots, "alpha": alpha}


def row_scores(beta: tf.Tensor, memory: dict[str, tf.Tensor]) -> tf.Tensor:
    """Returns scores of memory["values"] [B, Q, M] for scores beta [B, Q, K] of the slots."""
    return tf.matmul(beta, memory["votes"], transpose_b=True) if "votes" in memory else beta
