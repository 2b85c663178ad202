"""Memory attention with extensions that ablations switch on one by one; not in the paper."""

from typing import Annotated, Literal

import tensorflow as tf

from memattn.attention.configured import Initializer
from memattn.attention.memory import SCORINGS
from memattn.attention.ops import masked_softmax, sum_dtype
from memattn.attention.slots import SlotReader, value_scores
from memattn.attention.windowed_memory import position_windows
from memattn.options import PositiveInt, Range


@tf.keras.utils.register_keras_serializable("studies")
class MemoryVariantAttention(SlotReader):
    """Memory attention of Eqs. 4 to 7 with further choices for the weights alpha and for the logits of beta.

    Args:
      num_slots: K, the number of slots.
      encoder_scoring: how logits become alpha: by a softmax over the K slots (Eq. 5), by sigmoid gates, or by a softmax
        over the time steps (softmax_time), as in ABC-MLP (Peng et al., 2022).
      decoder_scoring: how logits become beta (Eq. 7).
      encoder_normalize: "time" divides alpha by its sum over the time steps, so that each slot is a weighted mean of
        the states; the paper's slots are sums ("none"). It changes nothing with softmax_time.
      vote_scale: factor of alpha, and so of C; above 0. In the paper it is 1; contexts of softmax/softmax then start
        K/2 times smaller than those of sigmoid/softmax and softmax/sigmoid (encoder/decoder scoring).
      position_windows: add a window to the logits of alpha: slot k prefers the k-th of K equal stretches of the source.
      free_windows: multiply the window of each slot by a trained weight, which is 1 at first: so training can weaken a
        window that does harm.
      read: what the logits of beta are: "address", W_beta h (Eq. 7), or "additive", v . tanh(W_q h + b + W_read C_k),
        as in Bahdanau attention.
      read_units: width of v and of the vectors in the tanh; for `read: additive` only.
      initializer: name, config or object, of all weight matrices and v.
    """

    def __init__(
        self,
        *,
        num_slots: PositiveInt = 32,
        encoder_scoring: Literal["softmax", "sigmoid", "softmax_time"] = "softmax",
        decoder_scoring: Literal["softmax", "sigmoid"] = "softmax",
        encoder_normalize: Literal["none", "time"] = "none",
        vote_scale: Annotated[float, Range(above=0)] = 1.0,
        position_windows: bool = False,
        free_windows: bool = False,
        read: Literal["address", "additive"] = "address",
        read_units: PositiveInt = 64,
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(num_slots=num_slots, read=read, read_units=read_units, initializer=initializer, **kwargs)
        self.encoder_scoring, self.decoder_scoring = encoder_scoring, decoder_scoring
        self.encoder_normalize, self.vote_scale = encoder_normalize, vote_scale
        self.position_windows, self.free_windows = position_windows, free_windows
        self.window_scale = None
        self.encoder_scores = self.make_dense(self.num_slots, "encoder_scores")  # W_alpha

    def _alpha(self, states, mask):
        logits = self.encoder_scores(states)
        if self.free_windows and self.window_scale is None:  # the constructor does not know the enclosing layer's path
            self.window_scale = self.add_weight(shape=(self.num_slots,), initializer="ones", name="window_scale")
        if self.free_windows or self.position_windows:
            windows = position_windows(self.num_slots, mask, logits.dtype)
            logits += windows * tf.cast(self.window_scale, logits.dtype) if self.free_windows else windows
        if self.encoder_scoring == "softmax_time":
            alpha = masked_softmax(logits, tf.expand_dims(mask, -1), axis=1)
        else:
            alpha = SCORINGS[self.encoder_scoring](logits) * tf.expand_dims(tf.cast(mask, logits.dtype), -1)
        if self.encoder_normalize == "time":
            weights = tf.cast(alpha, sum_dtype(alpha.dtype))  # a float16 sum stops growing after many addends
            alpha = tf.cast(tf.math.divide_no_nan(weights, tf.reduce_sum(weights, 1, keepdims=True)), alpha.dtype)
        return self.vote_scale * alpha

    def score(self, query, memory, state=(), seed=None):
        beta = SCORINGS[self.decoder_scoring](self._slot_logits(query, memory))  # [B, Q, K]
        return value_scores(beta, memory), state
