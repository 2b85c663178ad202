"""The memory of K slots. If the padded length S is static and below K, it holds the S states instead.

Slots are C = alpha^T s, and a decoder step reads c = beta C. Since beta (alpha^T s) = (beta alpha^T) s, a step may as
well read the states s by beta alpha^T: the context is the same, read from S vectors instead of K.
"""

from typing import Literal

import keras

from memattn.attention import ops
from memattn.attention.base import AttentionMechanism
from memattn.attention.configured import Initializer, initializer_of
from memattn.options import PositiveInt


def slot_memory(slots: ops.Tensor, alpha: ops.Tensor, states: ops.Tensor) -> dict[str, ops.Tensor]:
    """Returns the memory whose "values" are the slots C [B, K, D], or the states [B, S, D] if S is static and below K.

    `alpha` [B, S, K] holds the weights that made the slots. The memory has it as "alpha" beside the slots, for
    `alignments`, and as "alpha_of_states" beside the states, for `value_scores`.
    """
    is_short = states.shape[1] is not None and states.shape[1] < slots.shape[1]
    return {"values": states, "alpha_of_states": alpha} if is_short else {"values": slots, "alpha": alpha}


def value_scores(beta: ops.Tensor, memory: dict[str, ops.Tensor]) -> ops.Tensor:
    """Returns the scores of memory["values"] [B, Q, M] for the weights beta [B, Q, K] of the slots."""
    if "alpha_of_states" in memory:
        return ops.matmul(beta, memory["alpha_of_states"], transpose_b=True)
    return beta


class SlotReader(AttentionMechanism):
    """Base of mechanisms that read K slots C = alpha^T s by beta, a softmax of the logits that `read` chooses.

    A mechanism defines `_alpha`, or `memorize` if its slots are no weighted sums of the states.

    Args:
      num_slots: K, the number of slots.
      read: what the logits of beta are: "address", W_beta h (Eq. 7), or "additive", v . tanh(W_q h + b + W_read C_k),
        as in Bahdanau attention.
      read_units: width of v and of the vectors in the tanh; for `read: additive` only.
      initializer: name, config or object, of all weight matrices and v.
    """

    num_slots: int

    def __init__(
        self,
        *,
        num_slots: PositiveInt = 32,
        read: Literal["address", "additive"] = "additive",
        read_units: PositiveInt = 128,
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_slots, self.read_units = int(num_slots), int(read_units)
        self.read, self.initializer = read, initializer
        self.v = None
        if read == "address":
            self.decoder_scores = self.make_dense(self.num_slots, "decoder_scores")  # W_beta
        else:
            self.key_layer = self.make_dense(self.read_units, "key")  # W_read
            self.query_layer = self.make_dense(self.read_units, "query", use_bias=True)  # W_q and b
            self._v_initializer = keras.initializers.get(initializer_of("v", initializer))

    def memorize(self, states, mask):
        alpha = self._alpha(states, mask)
        slots = ops.matmul(alpha, states, transpose_a=True)  # C [B, K, D]
        return self._with_keys(slot_memory(slots, alpha, states), slots)

    def _alpha(self, states: ops.Tensor, mask: ops.Tensor) -> ops.Tensor:
        """Returns the writing weights alpha [B, S, K] of states [B, S, D]; padding, where `mask` is false, gets 0."""
        raise NotImplementedError("a mechanism with slots defines _alpha or memorize")

    def _with_keys(self, memory: dict[str, ops.Tensor], slots: ops.Tensor) -> dict[str, ops.Tensor]:
        """Returns the memory, with W_read C_k for each slot C_k in `slots` [B, K, D] if they are read additively."""
        if self.read == "address":
            return memory
        if self.v is None:  # in the constructor, v could not get a path that begins with that of the enclosing layer
            self.v = self.add_weight(shape=(self.read_units,), initializer=self._v_initializer, name="v")
        return {**memory, "keys": self.key_layer(slots)}

    def score(self, query, memory, state=(), seed=None):
        beta = ops.softmax(self._slot_logits(query, memory))  # [B, Q, K]
        return value_scores(beta, memory), state

    def _slot_logits(self, query: ops.Tensor, memory: dict[str, ops.Tensor]) -> ops.Tensor:
        """Returns the logits of beta [B, Q, K]."""
        if self.read == "address":
            return self.decoder_scores(query)
        return ops.additive_energies(self.query_layer(query), memory["keys"], self.v)
