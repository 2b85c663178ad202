"""Luong et al. (2015), location-based attention: the query alone decides the weights of the source positions."""

from memattn.attention import ops
from memattn.attention.base import AttentionMechanism
from memattn.attention.initializers import Initializer
from memattn.options import PositiveInt


class LocationAttention(AttentionMechanism):
    """a = softmax(W_a h) over the source positions; positions beyond the longest training source get 0.

    The paper is Luong, Pham and Manning (2015), https://arxiv.org/abs/1508.04025, where it is called "location".

    Args:
      max_source_length: number of rows of W_a: the longest source of the training set.
      initializer: name, config or object, of W_a.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = LocationAttention(max_source_length=7)(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    reads_in_order = True

    def __init__(self, *, max_source_length: PositiveInt, initializer: Initializer = "glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.max_source_length = int(max_source_length)
        self.initializer = initializer
        self.position_scores = self.make_dense(self.max_source_length, "position_scores")

    def memorize(self, states, mask):
        return {"values": states, "mask": mask & (ops.arange(ops.shape(states)[1]) < self.max_source_length)}

    def score(self, query, memory, state=(), seed=None):
        length = ops.shape(memory["values"])[1]
        logits = self.position_scores(query)  # [B, Q, max_source_length]
        logits = ops.pad(logits, [[0, 0], [0, 0], [0, ops.maximum(0, length - self.max_source_length)]])
        logits = ops.ensure_shape(logits[:, :, :length], [None, None, memory["values"].shape[1]])
        return ops.masked_softmax(logits, memory["mask"][:, None]), state
