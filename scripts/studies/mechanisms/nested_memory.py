"""Memory attention whose slots are ordered by nested dropout, so that a trained memory can be cut; not in the paper."""

from typing import Literal

import tensorflow as tf

from memattn.attention import MemoryAttention
from memattn.attention.configured import Initializer
from memattn.attention.memory import SCORINGS
from memattn.attention.ops import masked_softmax
from memattn.attention.slots import slot_memory, value_scores
from memattn.options import PositiveInt


@tf.keras.utils.register_keras_serializable("studies")
class NestedMemoryAttention(MemoryAttention):
    """Memory attention of Eqs. 4 to 7, trained with only the first k slots; each source draws k uniformly from 1 to K.

    This nested dropout (Rippel et al., 2014) orders the slots, so that `keep` can cut a trained memory to any number.

    Args:
      num_slots: K, the number of slots.
      encoder_scoring: how logits become alpha_t (Eq. 5): by a softmax over the slots, or by sigmoid gates.
      decoder_scoring: how logits become beta (Eq. 7).
      initializer: name, config or object, of W_alpha and W_beta.
    """

    def __init__(
        self,
        *,
        num_slots: PositiveInt = 32,
        encoder_scoring: Literal["softmax", "sigmoid"] = "softmax",
        decoder_scoring: Literal["softmax", "sigmoid"] = "softmax",
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(
            num_slots=num_slots,
            encoder_scoring=encoder_scoring,
            decoder_scoring=decoder_scoring,
            initializer=initializer,
            **kwargs,
        )
        self._kept = self.num_slots

    def keep(self, num_slots: int) -> None:
        """Cuts the memory to its first slots.

        Graphs traced before this call, such as that of `predict`, do not change. A saved layer keeps all slots.
        """
        self._kept = num_slots

    def memorize_in_training(self, states, mask, seed):
        k = tf.random.stateless_uniform([tf.shape(states)[0], 1, 1], seed, 1, self._kept + 1, tf.int32)
        return self.memorize(states, mask, tf.range(self._kept) < k)

    def memorize(self, states, mask, used=None):
        """Returns the memory; `used` [B, 1, K] is false for the slots that a source may not use; None: it uses all."""
        logits = self.encoder_scores(states)[:, :, : self._kept]  # [B, S, K]
        alpha = _scored(self.encoder_scoring, logits, used) * tf.expand_dims(tf.cast(mask, logits.dtype), -1)
        memory = slot_memory(tf.matmul(alpha, states, transpose_a=True), alpha, states)
        return memory if used is None else {**memory, "used": used}

    def score(self, query, memory, state=(), seed=None):
        logits = self.decoder_scores(query)[:, :, : self._kept]  # [B, Q, K]
        beta = _scored(self.decoder_scoring, logits, memory.get("used"))
        return value_scores(beta, memory), state


def _scored(scoring: str, logits: tf.Tensor, used: tf.Tensor | None) -> tf.Tensor:
    """Applies a scoring function to logits [B, N, K] of the slots that are `used` [B, 1, K]; all others get 0."""
    if used is None:
        return SCORINGS[scoring](logits)
    if scoring == "softmax":
        return masked_softmax(logits, used)
    return SCORINGS[scoring](logits) * tf.cast(used, logits.dtype)
