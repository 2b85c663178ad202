"""Raffel and Ellis (2016): feed-forward attention, which pools a source into one vector for all queries."""

from memattn.attention import ops
from memattn.attention.base import AttentionMechanism
from memattn.attention.configured import Initializer


class FeedForwardAttention(AttentionMechanism):
    """Reads c = sum_t a_t s_t for every query, where a is the softmax over time of tanh(w . s_t + b).

    This is a memory of one slot.

    The paper is Raffel and Ellis (2016), https://arxiv.org/abs/1512.08756.

    Args:
      weighted: false gives all positions the same weight, so that c is the mean state (the authors' unweighted model).
      initializer: name, config or object, of w.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = FeedForwardAttention()(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    num_slots = 1

    def __init__(self, *, weighted: bool = True, initializer: Initializer = "glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.weighted, self.initializer = weighted, initializer
        self.energy = self.make_dense(1, "energy", use_bias=True) if weighted else None

    def memorize(self, states, mask):
        logits = ops.tanh(self.energy(states)[:, :, 0]) if self.weighted else ops.zeros_like(states[:, :, 0])
        weights = ops.masked_softmax(logits, mask)[:, None]  # [B, 1, S]
        return {"values": weights @ states, "weights": weights}

    def score(self, query, memory, state=(), seed=None):
        return ops.ones_like(query[:, :, :1]), state

    def alignments(self, memory, scores):
        return scores @ memory["weights"]
