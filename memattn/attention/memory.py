"""Britz, Guan & Luong (2017): attention over a memory of fixed size, written once while the source is read."""

from typing import Literal

import numpy as np
import tensorflow as tf

from memattn.attention.base import AttentionMechanism

SCORING_FUNCTIONS = {"softmax": tf.nn.softmax, "sigmoid": tf.sigmoid}


class MemoryAttention(AttentionMechanism):
    """Each encoder state s_t votes with K scores alpha_t, C = sum_t alpha_t s_t^T; a step reads c = beta C.

    Args:
      num_slots: K, the rows of C; at least 1.
      encoder_scoring: what makes alpha of its logits: a softmax over the K slots (Eq. 5), or sigmoid gates.
      decoder_scoring: what makes beta of its logits (Eq. 7).
      position_encoding: multiply the logits of alpha by the position encodings of Eqs. 8 to 10.
      renormalize: how position encodings are scaled over the real time steps of a source: to a sum of 1 (the paper's
        words taken literally), to a mean of 1, or not at all.
      max_source_length: S of Eq. 10, the longest source of the training set; positions past it count as the last.
        Needed with `position_encoding`.
      initializer: name or config, of W_alpha and W_beta.
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
        initializer: str | dict = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.check(num_slots, encoder_scoring, decoder_scoring, position_encoding, renormalize)
        if position_encoding and (max_source_length is None or max_source_length < 1):
            raise ValueError(f"max_source_length: position_encoding needs at least 1, not {max_source_length}")
        self.num_slots, self.encoder_scoring, self.decoder_scoring = num_slots, encoder_scoring, decoder_scoring
        self.position_encoding, self.renormalize = position_encoding, renormalize
        self.max_source_length = max_source_length
        self.initializer = initializer
        self.encoder_scores = tf.keras.layers.Dense(
            num_slots,
            use_bias=False,
            kernel_initializer=initializer,
            dtype=self.dtype_policy,
            name="encoder_scores",
        )
        self.decoder_scores = tf.keras.layers.Dense(
            num_slots,
            use_bias=False,
            kernel_initializer=initializer,
            dtype=self.dtype_policy,
            name="decoder_scores",
        )

    @classmethod
    def check(cls, num_slots, encoder_scoring, decoder_scoring, position_encoding, renormalize):
        if num_slots < 1:
            raise ValueError(f"num_slots: must be at least 1, not {num_slots}")
        for key, scoring in (("encoder_scoring", encoder_scoring), ("decoder_scoring", decoder_scoring)):
            if scoring not in SCORING_FUNCTIONS:
                raise ValueError(f"{key}: {scoring!r} is none of {', '.join(SCORING_FUNCTIONS)}")
        if renormalize not in ("sum", "mean", "none"):
            raise ValueError(f"renormalize: {renormalize!r} is none of sum, mean, none")

    def memorize(self, states, mask):
        logits = self.encoder_scores(states)  # [B, S, K], W_alpha s_t
        if self.position_encoding:
            logits *= tf.cast(self._position_encodings(mask), logits.dtype)  # Eq. 9
        alpha = SCORING_FUNCTIONS[self.encoder_scoring](logits) * tf.cast(mask, logits.dtype)[:, :, None]  # Eq. 5
        if states.shape[1] is not None and states.shape[1] < self.num_slots:
            return {"values": states, "votes": alpha}
        return {"values": tf.matmul(alpha, states, transpose_a=True), "alpha": alpha}  # C [B, K, D], Eq. 4

    def score(self, query, memory, state=()):
        beta = SCORING_FUNCTIONS[self.decoder_scoring](self.decoder_scores(query))  # [B, Q, K], Eq. 7
        # beta C = beta (alpha^T s) = (beta alpha^T) s: a source shorter than K has fewer states than C has rows.
        return (tf.matmul(beta, memory["votes"], transpose_b=True) if "votes" in memory else beta), state

    def alignments(self, memory, scores):
        if "votes" in memory:
            return scores
        return tf.matmul(scores, memory["alpha"], transpose_b=True)  # [B, Q, S], beta . alpha of Figures 6 to 8

    def _position_encodings(self, mask: tf.Tensor) -> tf.Tensor:
        """l_s of section 3.2, [B, S, K] or [1, S, K] in float32, for the real positions that `mask` [B, S] marks."""
        table = tf.constant(position_encodings(self.num_slots, self.max_source_length))
        length = tf.shape(mask)[1]
        encodings = tf.gather(table, tf.minimum(tf.range(length), self.max_source_length - 1))[None]  # [1, S, K]
        if self.renormalize == "none":
            return encodings
        weights = tf.cast(mask, tf.float32)[:, :, None]  # [B, S, 1]
        encodings *= weights
        totals = tf.reduce_sum(encodings, 1, keepdims=True)  # over time, [B, 1, K]; 0 for a padding row
        lengths = tf.reduce_sum(weights, 1, keepdims=True)  # [B, 1, 1]
        return tf.math.divide_no_nan(encodings, totals) * (lengths if self.renormalize == "mean" else 1.0)

    def get_config(self):
        return {
            **super().get_config(),
            "num_slots": self.num_slots,
            "encoder_scoring": self.encoder_scoring,
            "decoder_scoring": self.decoder_scoring,
            "position_encoding": self.position_encoding,
            "renormalize": self.renormalize,
            "max_source_length": self.max_source_length,
            "initializer": self.initializer,
        }


def position_encodings(num_slots: int, max_source_length: int) -> np.ndarray:
    """L of Eq. 10, transposed to [S, K]: (1 - k/K)(1 - s/S) + (k/K)(s/S), k and s counted from 1."""
    k = np.arange(1, num_slots + 1) / num_slots
    s = np.arange(1, max_source_length + 1)[:, None] / max_source_length
    return ((1 - k) * (1 - s) + k * s).astype(np.float32)
