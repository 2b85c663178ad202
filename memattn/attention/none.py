"""No attention: an empty memory, from which the decoder reads a context of width 0."""

from memattn.attention import ops
from memattn.attention.base import AttentionMechanism


class NoAttention(AttentionMechanism):
    """The baseline without attention: the decoder knows the source only through its initial state.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = NoAttention()(queries, states)
      >>> tuple(context.shape)
      (2, 3, 0)
    """

    num_slots = 0

    def context_size(self, value_size: int) -> int:
        return 0

    def memorize(self, states: ops.Tensor, mask: ops.Tensor) -> dict[str, ops.Tensor]:
        positions = ops.zeros_like(mask, states.dtype)[:, None][:, :0]  # [B, 0, S]
        return {"values": states[:, :0, :0], "positions": positions}

    def score(self, query, memory, state=(), seed=None):
        return query[:, :, :0], state

    def alignments(self, memory, scores):
        return scores @ memory["positions"]  # [B, Q, S], all 0
