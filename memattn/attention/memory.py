"""Attention with a fixed-size memory: Britz, Guan & Luong (2017), section 3, Eqs. 4 to 10."""

from typing import Literal

import numpy as np

from memattn.attention import ops
from memattn.attention.base import AttentionMechanism
from memattn.attention.configured import Initializer
from memattn.attention.slots import slot_memory, value_scores
from memattn.options import OptionError, PositiveInt

SCORINGS = {"softmax": ops.softmax, "sigmoid": ops.sigmoid}  # of logits [..., K]; softmax runs over the slots


class MemoryAttention(AttentionMechanism):
    """Sums the encoder states into K slots, once per source; each decoder step reads a weighted sum of the slots.

    The encoder adds each state s_t to every slot, with weights alpha_t: C = sum_t alpha_t s_t^T. A decoder step reads
    c = beta C, where the query h determines beta, the weights of the slots.

    The paper is Britz, Guan and Luong (2017), https://aclanthology.org/D17-1040/.

    Args:
      num_slots: K, the number of slots.
      encoder_scoring: how K logits become alpha_t (Eq. 5): by a softmax over the slots, or by sigmoid gates.
      decoder_scoring: how K logits become beta (Eq. 7).
      position_encoding: multiply the logits of alpha by the position encodings of Eqs. 8 to 10.
      renormalize: scale of position encodings over a source: to a sum of 1 (the paper's words taken literally), to a
        mean of 1, or not at all.
      max_source_length: N, the length of the longest source of the training set, which Eq. 10 calls S; later positions
        count as position N. Needed with `position_encoding`.
      initializer: name, config or object, of W_alpha and W_beta.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> attention = MemoryAttention(num_slots=4, encoder_scoring="sigmoid")
      >>> context, weights = attention(queries, states, return_attention_scores=True)
      >>> tuple(context.shape), tuple(weights.shape)
      ((2, 3, 8), (2, 3, 7))
    """

    def __init__(
        self,
        *,
        num_slots: PositiveInt = 32,
        encoder_scoring: Literal["softmax", "sigmoid"] = "softmax",
        decoder_scoring: Literal["softmax", "sigmoid"] = "softmax",
        position_encoding: bool = False,
        renormalize: Literal["sum", "mean", "none"] = "sum",
        max_source_length: PositiveInt | None = None,
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_slots = int(num_slots)
        self.encoder_scoring, self.decoder_scoring = encoder_scoring, decoder_scoring
        self.position_encoding, self.renormalize = position_encoding, renormalize
        self.max_source_length, self.initializer = max_source_length, initializer
        self._encodings = None
        if position_encoding:
            if max_source_length is None:
                raise OptionError("max_source_length", "missing; position_encoding needs it")
            self._encodings = position_encodings(self.num_slots, max_source_length)
        self.encoder_scores = self.make_dense(self.num_slots, "encoder_scores")  # W_alpha
        self.decoder_scores = self.make_dense(self.num_slots, "decoder_scores")  # W_beta

    def memorize(self, states, mask):
        logits = self.encoder_scores(states)  # [B, S, K], W_alpha s_t
        if self._encodings is not None:
            encodings = source_encodings(self._encodings, mask, self.renormalize, ops.sum_dtype(logits.dtype))
            logits = logits * ops.cast(encodings, logits.dtype)  # Eq. 9
        alpha = SCORINGS[self.encoder_scoring](logits)  # [B, S, K], Eq. 5
        alpha = alpha * ops.expand_dims(ops.cast(mask, alpha.dtype), -1)  # padding adds nothing
        slots = ops.matmul(alpha, states, transpose_a=True)  # C [B, K, D], Eqs. 4 and 8
        return slot_memory(slots, alpha, states)  # holds the slots, or the states of a source shorter than K

    def score(self, query, memory, state=(), seed=None):
        beta = SCORINGS[self.decoder_scoring](self.decoder_scores(query))  # [B, Q, K], Eq. 7
        return value_scores(beta, memory), state  # the decoder reads c = scores @ memory["values"], Eq. 6


def position_encodings(num_slots: int, max_source_length: int) -> np.ndarray:
    """Returns L of Eq. 10, transposed to [N, K]: (1 - k/K)(1 - s/N) + (k/K)(s/N), k and s counted from 1."""
    k = np.arange(1, num_slots + 1) / num_slots
    s = np.arange(1, max_source_length + 1)[:, None] / max_source_length
    return (1 - k) * (1 - s) + k * s


def source_encodings(encodings: np.ndarray, mask: ops.Tensor, renormalize: str, dtype: str) -> ops.Tensor:
    """Returns l_s of Eq. 9 [B, S, K] for each position of a batch, from L of Eq. 10 as `position_encodings` returns it.

    `mask` [B, S] is false for padding, which does not count as a position. `renormalize` scales each slot's encodings
    over the positions of a source to a "sum" or "mean" of 1, or not at all ("none").
    """
    positions = ops.cumsum(ops.cast(mask, "int32"), 1) - 1  # -1 for padding in front
    positions = ops.clip(positions, 0, len(encodings) - 1)
    rows = ops.take(ops.convert_to_tensor(encodings, dtype), positions, axis=0)  # [B, S, K]
    if renormalize == "none":
        return rows
    is_real = ops.expand_dims(ops.cast(mask, dtype), -1)  # [B, S, 1]
    rows = rows * is_real
    sums = ops.sum(rows, 1, keepdims=True)  # [B, 1, K]; 0 where all is padding
    fractions = ops.divide_no_nan(rows, sums)
    lengths = ops.sum(is_real, 1, keepdims=True)  # [B, 1, 1]
    return fractions * lengths if renormalize == "mean" else fractions
