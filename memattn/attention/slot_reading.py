"""Two ways to score slots in a decoder step: by address, as in the paper, or by what the slots hold."""

import tensorflow as tf

from memattn.attention.base import AttentionMechanism
from memattn.attention.initializers import Initializer, initializer_of
from memattn.attention.ops import additive_energies
from memattn.attention.slots import slot_memory, source_weights


class SlotReader(AttentionMechanism):
    """Base of mechanisms with K slots whose option `read` chooses the logits of beta.

    - "address": W_beta h (Eq. 7).
    - "additive": v . tanh(W_q h + b + W_read C_k) for slot k, as Bahdanau attention scores source states. The vectors
      in the tanh are `read_units` wide.

    A constructor sets the attributes below, then calls `_make_reading_layers`; `memorize` begins with `_make_v`.
    """

    num_slots: int
    read: str
    read_units: int
    initializer: Initializer

    def _make_reading_layers(self) -> None:
        """Makes the layers that `read` needs."""
        if self.read == "address":
            self.decoder_scores = self._projection(self.num_slots, "decoder_scores")  # W_beta
        else:
            self.key_layer = self._projection(self.read_units, "key")  # W_read
            self.query_layer = self._projection(self.read_units, "query", use_bias=True)  # W_q and b
            self.v = None
            self._v_initializer = tf.keras.initializers.get(initializer_of("v", self.initializer))

    def _make_v(self) -> None:
        """Makes v, if needed. In a constructor, v could not get a path that begins with that of the enclosing layer."""
        if self.read == "additive" and self.v is None:
            self.v = self.add_weight(shape=(self.read_units,), initializer=self._v_initializer, name="v")

    def _slot_memory(self, slots: tf.Tensor, alpha: tf.Tensor, states: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the memory of slots C [B, K, D], made of states [B, S, D] by weights alpha [B, S, K]."""
        memory = slot_memory(slots, alpha, states)
        return memory if self.read == "address" else {**memory, "keys": self.key_layer(slots)}

    def _slot_logits(self, query: tf.Tensor, memory: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits of beta [B, Q, K]."""
        if self.read == "address":
            return self.decoder_scores(query)
        return additive_energies(self.query_layer(query), memory["keys"], self.v)

    def alignments(self, memory, scores):
        return source_weights(scores, memory)
