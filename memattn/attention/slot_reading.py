"""Two ways to score slots in a decoder step: by address, as in the paper, or by what the slots hold."""

import tensorflow as tf

from memattn.attention.base import AttentionMechanism
from memattn.attention.initializers import initializer_of
from memattn.attention.memory import MemoryAttention, stored
from memattn.attention.ops import additive_energies


class SlotReader(AttentionMechanism):
    """Base of mechanisms with K = `num_slots` slots and a choice of reading, `read`.

    The logits of beta are W_beta h with "address" (Eq. 7), and v . tanh(W_q h + b + W_read C_k) with "additive", where
    vectors are `read_units` wide: Bahdanau attention scores source states like this.
    """

    alignments = MemoryAttention.alignments

    def _make_reading_layers(self) -> None:
        """Ends a constructor."""
        self.decoder_scores = self.key_layer = self.query_layer = self.v = None
        if self.read == "address":
            self.decoder_scores = self._projection(self.num_slots, "decoder_scores")  # W_beta
        else:
            self.key_layer = self._projection(self.read_units, "key")  # W_read
            self.query_layer = self._projection(self.read_units, "query", use_bias=True)  # W_q and b
            self._v_initializer = tf.keras.initializers.get(initializer_of("v", self.initializer))

    def _make_v(self) -> None:
        """Begins `memorize`: weights are made under the path of the layer around, which the constructor cannot know."""
        if self.read == "additive" and self.v is None:
            self.v = self.add_weight(shape=(self.read_units,), initializer=self._v_initializer, name="v")

    def _stored(self, slots: tf.Tensor, alpha: tf.Tensor, states: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the memory of slots C [B, K, D], weights alpha [B, S, K] and states [B, S, D]."""
        memory = stored(slots, alpha, states)
        return memory if self.key_layer is None else {**memory, "keys": self.key_layer(slots)}

    def _slot_logits(self, query: tf.Tensor, memory: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits of beta [B, Q, K]."""
        if self.key_layer is None:
            return self.decoder_scores(query)
        return additive_energies(self.query_layer(query), memory["keys"], self.v)
