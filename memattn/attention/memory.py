"""Britz, Guan & Luong (2017): attention over a memory of fixed size, written once while the source is read."""

import math
import numbers
from typing import Literal

import numpy as np
import tensorflow as tf

from memattn.attention.base import (
    AttentionMechanism,
    Initializer,
    accurate,
    additive_energies,
    initializer_config,
    initializer_of,
    masked_softmax,
    one_of,
    products,
    whole,
)
from memattn.attention.errors import OptionError

SCORING_FUNCTIONS = {"softmax": tf.nn.softmax, "sigmoid": tf.sigmoid}
_LOWEST_WINDOW_LOGIT = -8.0  # far from a slot's window; content can still overrule it
_CHOICES = {
    "encoder_scoring": (*SCORING_FUNCTIONS, "softmax_time"),
    "decoder_scoring": tuple(SCORING_FUNCTIONS),
    "encoder_normalize": ("none", "time"),
    "read": ("address", "content", "additive"),
    "renormalize": ("sum", "mean", "none"),
}


class MemoryAttention(AttentionMechanism):
    """Each encoder state s_t votes with K scores alpha_t, C = sum_t alpha_t s_t^T; a step reads c = beta C.

    Args:
      num_slots: K, the rows of C; at least 1.
      encoder_scoring: what makes alpha of its logits: a softmax over the K slots (Eq. 5), sigmoid gates, or, not in the
        paper, a softmax over the time steps (softmax_time), as in ABC-MLP (Peng et al., 2022).
      decoder_scoring: what makes beta of its logits (Eq. 7).
      encoder_normalize: "time" divides alpha by its sum over the time steps, so that each row of C is a weighted mean
        of the states; the paper's rows are sums ("none"). It changes nothing with softmax_time.
      vote_scale: multiplies alpha, and so C; above 0. With the paper's 1, the first contexts of softmax/softmax are K/2
        times smaller than those of sigmoid/softmax and softmax/sigmoid.
      read: what the logits of beta are: "address", W_beta h (Eq. 7); or, not in the paper, "content",
        h^T W_read C_k / sqrt(U), U the width of h, as in ABC; "additive", v . tanh(W_q h + b + W_read C_k), as in
        Bahdanau attention.
      read_units: width of v and of what is added in the tanh; for `read: additive` only.
      nested: in training, each source has the first k slots alone, k uniform on 1 to K (nested dropout, Rippel et al.,
        2014), so that a trained model can be cut to any number of slots (`keep`). Not in the paper; not for position
        encodings and windows, which give the slots their places.
      position_windows: add a window to the logits of alpha, not in the paper: slot k prefers the k-th of K equal
        stretches of the source. A window is at least one position wide: slots share the positions of a shorter source.
      position_encoding: multiply the logits of alpha by the position encodings of Eqs. 8 to 10.
      renormalize: how position encodings are scaled over the real time steps of a source: to a sum of 1 (the paper's
        words taken literally), to a mean of 1, or not at all.
      max_source_length: S of Eq. 10, the longest source of the training set; positions past it count as the last.
        Needed with `position_encoding`.
      units: width U of the queries. Needed to read by content.
      initializer: name, config or object, of all weight matrices and v.
    """

    def __init__(
        self,
        *,
        num_slots: int = 32,
        encoder_scoring: Literal["softmax", "sigmoid", "softmax_time"] = "softmax",
        decoder_scoring: Literal["softmax", "sigmoid"] = "softmax",
        encoder_normalize: Literal["none", "time"] = "none",
        vote_scale: float = 1.0,
        read: Literal["address", "content", "additive"] = "address",
        read_units: int = 64,
        nested: bool = False,
        position_windows: bool = False,
        position_encoding: bool = False,
        renormalize: Literal["sum", "mean", "none"] = "sum",
        max_source_length: int | None = None,
        units: int | None = None,
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.check(
            num_slots,
            read_units,
            vote_scale,
            nested=nested,
            position_windows=position_windows,
            position_encoding=position_encoding,
            encoder_scoring=encoder_scoring,
            decoder_scoring=decoder_scoring,
            encoder_normalize=encoder_normalize,
            read=read,
            renormalize=renormalize,
        )
        if position_encoding:
            max_source_length = whole("max_source_length (for position_encoding)", max_source_length)
        if read == "content":
            units = whole("units (to read by content)", units)
        num_slots, read_units = int(num_slots), int(read_units)  # Keras takes no NumPy integers
        self.num_slots = self._kept = num_slots
        self.encoder_scoring, self.decoder_scoring = encoder_scoring, decoder_scoring
        self.encoder_normalize, self.vote_scale = encoder_normalize, vote_scale
        self.read, self.read_units = read, read_units
        self.nested = nested
        self.position_windows = position_windows
        self.position_encoding, self.renormalize = position_encoding, renormalize
        self.max_source_length, self.units = max_source_length, units
        self.initializer = initializer
        self.encoder_scores = self._projection(num_slots, "encoder_scores")
        self.decoder_scores = self.key_layer = self.query_layer = self.v = None
        if read == "address":
            self.decoder_scores = self._projection(num_slots, "decoder_scores")
        else:
            self.key_layer = self._projection(units if read == "content" else read_units, "key")
        if read == "additive":
            self.query_layer = self._projection(read_units, "query", use_bias=True)
            self._v_initializer = tf.keras.initializers.get(initializer_of("v", initializer))

    @classmethod
    def check(cls, num_slots, read_units, vote_scale, nested, position_windows, position_encoding, **choices):
        whole("num_slots", num_slots)
        whole("read_units", read_units)
        if not (isinstance(vote_scale, numbers.Real) and 0 < vote_scale < math.inf):
            raise OptionError("vote_scale", f"must be a number above 0, not {vote_scale!r}")
        if nested and (position_windows or position_encoding):
            raise OptionError("nested", "position encodings and windows give each slot a place; switch them off")
        for key, known in _CHOICES.items():
            one_of(key, choices[key], known)

    def keep(self, num_slots: int) -> None:
        """Cuts the memory to its first slots, for models trained with `nested`. Raises ValueError.

        Graphs that were traced before, such as that of `predict`, keep their slots; a saved layer has all.
        """
        if not self.nested:
            raise OptionError("num_slots", "only a layer with nested=True can be cut")
        kept = whole("num_slots", num_slots)
        if kept > self.num_slots:
            raise OptionError("num_slots", f"must be at most {self.num_slots}, not {kept}")
        self._kept = kept

    def memorize_in_training(self, states, mask, seed):
        if not self.nested:
            return self.memorize(states, mask)
        draws = tf.random.stateless_uniform([tf.shape(states)[0], 1, 1], seed, 1, self._kept + 1, tf.int32)
        return self.memorize(states, mask, tf.range(self._kept) < draws)

    def memorize(self, states, mask, used=None):
        """As of every mechanism; `used` [B, 1, K] says which slots each source has, None: all."""
        if self.read == "additive" and self.v is None:  # under the path of the layer around it, unlike in __init__
            self.v = self.add_weight(shape=(self.read_units,), initializer=self._v_initializer, name="v")
        logits = self.encoder_scores(states)[:, :, : self._kept]  # [B, S, K], W_alpha s_t
        dtype = accurate(logits.dtype)
        if self.position_encoding:
            logits = logits * tf.cast(self._position_encodings(mask, dtype), logits.dtype)  # Eq. 9
        if self.position_windows:
            logits = logits + tf.cast(self._position_windows(mask, dtype), logits.dtype)
        alpha = self.vote_scale * self._votes(logits, tf.expand_dims(mask, -1), used)
        rows = tf.matmul(alpha, states, transpose_a=True)  # C [B, K, D], Eq. 4
        is_short = states.shape[1] is not None and states.shape[1] < self._kept
        memory = {"values": states, "votes": alpha} if is_short else {"values": rows, "alpha": alpha}
        if used is not None:
            memory["used"] = used
        if self.key_layer is not None:
            memory["keys"] = self.key_layer(rows)
        if self.read == "content":
            memory["keys"] /= math.sqrt(self.units)
        return memory

    def _votes(self, logits: tf.Tensor, mask: tf.Tensor, used: tf.Tensor | None) -> tf.Tensor:
        """alpha [B, S, K] for logits [B, S, K], a mask [B, S, 1], and the slots [B, 1, K] that are used."""
        if self.encoder_scoring == "softmax_time":
            over_time = masked_softmax(tf.transpose(logits, [0, 2, 1]), tf.transpose(mask, [0, 2, 1]))
            alpha = tf.transpose(over_time, [0, 2, 1])
            return alpha if used is None else alpha * tf.cast(used, alpha.dtype)
        alpha = _scored(self.encoder_scoring, logits, used) * tf.cast(mask, logits.dtype)  # Eq. 5
        if self.encoder_normalize == "time":
            weights = tf.cast(alpha, accurate(alpha.dtype))  # sums of many float16 stop growing
            alpha = tf.cast(tf.math.divide_no_nan(weights, tf.reduce_sum(weights, 1, keepdims=True)), alpha.dtype)
        return alpha

    def score(self, query, memory, state=(), seed=None):
        if self.read == "address":
            logits = self.decoder_scores(query)[:, :, : self._kept]  # [B, Q, K], W_beta h
        elif self.read == "content":
            logits = products(query, memory["keys"])
        else:
            logits = additive_energies(self.query_layer(query), memory["keys"], self.v)
        beta = _scored(self.decoder_scoring, logits, memory.get("used"))  # Eq. 7
        # beta C = beta (alpha^T s) = (beta alpha^T) s: a source shorter than K has fewer states than C has rows.
        return (tf.matmul(beta, memory["votes"], transpose_b=True) if "votes" in memory else beta), state

    def alignments(self, memory, scores):
        if "votes" in memory:
            return scores
        return tf.matmul(scores, memory["alpha"], transpose_b=True)  # [B, Q, S], beta . alpha of Figures 6 to 8

    def _position_windows(self, mask: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Logits [B, S, K]: -d^2 / (2 sigma^2), d the distance to the middle of slot k's stretch.

        At least _LOWEST_WINDOW_LOGIT; sigma is a quarter of a stretch, or of one position if that is longer.
        """
        real = tf.cast(mask, dtype)
        positions = tf.expand_dims(tf.cumsum(real, 1), -1) - 0.5  # [B, S, 1], middles of the real positions
        stretch = tf.reduce_sum(real, 1)[:, None, None] / self.num_slots  # [B, 1, 1]
        middles = (tf.range(self.num_slots, dtype=dtype) + 0.5) * stretch  # [B, 1, K]
        deviation = tf.maximum(stretch, 1.0) / 4
        return tf.maximum(-0.5 * tf.square((positions - middles) / deviation), _LOWEST_WINDOW_LOGIT)

    def _position_encodings(self, mask: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """l_s of section 3.2 [B, S, K] for the real positions that `mask` [B, S] marks."""
        table = tf.constant(position_encodings(self.num_slots, self.max_source_length), dtype)
        positions = tf.cumsum(tf.cast(mask, tf.int32), 1) - 1  # of the real ones; -1 before the first
        encodings = tf.gather(table, tf.clip_by_value(positions, 0, self.max_source_length - 1))  # [B, S, K]
        if self.renormalize == "none":
            return encodings
        weights = tf.expand_dims(tf.cast(mask, dtype), -1)  # [B, S, 1]
        encodings = encodings * weights
        totals = tf.reduce_sum(encodings, 1, keepdims=True)  # over time, [B, 1, K]; 0 for a padding row
        lengths = tf.reduce_sum(weights, 1, keepdims=True)  # [B, 1, 1]
        shares = tf.math.divide_no_nan(encodings, totals)
        return shares * lengths if self.renormalize == "mean" else shares

    def get_config(self):
        return {
            **super().get_config(),
            "num_slots": self.num_slots,
            "encoder_scoring": self.encoder_scoring,
            "decoder_scoring": self.decoder_scoring,
            "encoder_normalize": self.encoder_normalize,
            "vote_scale": self.vote_scale,
            "read": self.read,
            "read_units": self.read_units,
            "nested": self.nested,
            "position_windows": self.position_windows,
            "position_encoding": self.position_encoding,
            "renormalize": self.renormalize,
            "max_source_length": self.max_source_length,
            "units": self.units,
            "initializer": initializer_config(self.initializer),
        }


def _scored(scoring: str, logits: tf.Tensor, used: tf.Tensor | None) -> tf.Tensor:
    """A scoring function over the slots, the last axis of logits [B, N, K]; 0 for those not `used` [B, 1, K]."""
    if used is None:
        return SCORING_FUNCTIONS[scoring](logits)
    if scoring == "softmax":
        return masked_softmax(logits, used)
    return SCORING_FUNCTIONS[scoring](logits) * tf.cast(used, logits.dtype)


def position_encodings(num_slots: int, max_source_length: int) -> np.ndarray:
    """L of Eq. 10, transposed to [S, K]: (1 - k/K)(1 - s/S) + (k/K)(s/S), k and s counted from 1."""
    k = np.arange(1, num_slots + 1) / num_slots
    s = np.arange(1, max_source_length + 1)[:, None] / max_source_length
    return (1 - k) * (1 - s) + k * s
