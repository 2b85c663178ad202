"""Pools a source into a memory of fixed size without slots: one vector for all queries, or a matrix."""

from typing import Literal

from memattn.attention import ops
from memattn.attention.base import AttentionMechanism
from memattn.attention.configured import Initializer
from memattn.options import PositiveInt


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
        return {"values": weights @ states, "alpha": ops.transpose(weights, [0, 2, 1])}

    def score(self, query, memory, state=(), seed=None):
        return ops.ones_like(query[:, :, :1]), state


class LinearAttention(AttentionMechanism):
    """Reads c = C W_q h from C = sum_t f_t f_t^T [F, F], where f_t is the state s_t, optionally projected and gated.

    The paper is De Brebisson and Vincent (2016), https://arxiv.org/abs/1609.05866. Linear transformers have such
    a memory, with a feature map of keys and queries (Katharopoulos et al., 2020, https://arxiv.org/abs/2006.16236).

    Args:
      projection: F, the width to which states are projected first; None: no projection, F = D.
      gated: multiply f_t by sigmoid(W f_t + b), where W starts at 0 and b at 1.
      normalize: "length" divides C by the number of source positions.
      initializer: name, config or object, of the weight matrices except the gate's.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = LinearAttention(projection=4)(queries, states)
      >>> tuple(context.shape)
      (2, 3, 4)
    """

    def __init__(
        self,
        *,
        projection: PositiveInt | None = None,
        gated: bool = False,
        normalize: Literal["none", "length"] = "length",
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.projection = None if projection is None else int(projection)
        self.gated, self.normalize = gated, normalize
        self.initializer = initializer
        self.projection_layer = self.gate_layer = self.query_layer = None
        if self.projection:
            self.projection_layer = self.make_dense(self.projection, "projection")

    def context_size(self, value_size):
        return self.projection or value_size

    def memorize(self, states, mask):
        if self.query_layer is None:
            width = self.context_size(states.shape[-1])  # F
            self.query_layer = self.make_dense(width, "query")
            if self.gated:
                starts = {"kernel_initializer": "zeros", "bias_initializer": "ones"}
                self.gate_layer = self.make_dense(width, "gate", activation="sigmoid", use_bias=True, **starts)
        features = states if self.projection_layer is None else self.projection_layer(states)
        if self.gate_layer is not None:
            features = features * self.gate_layer(features)
        features = features * ops.expand_dims(ops.cast(mask, features.dtype), -1)  # [B, S, F]
        alpha = features
        if self.normalize == "length":
            lengths = ops.sum(ops.cast(mask, ops.sum_dtype(features.dtype)), 1)[:, None, None]
            fractions = ops.divide_no_nan(ops.ones_like(lengths), lengths)  # 1 / S; in float16, S may overflow
            alpha = features * ops.cast(fractions, features.dtype)
        return {"values": ops.matmul(alpha, features, transpose_a=True), "alpha": alpha}  # "values" is C [B, F, F]

    def score(self, query, memory, state=(), seed=None):
        return self.query_layer(query), state  # [B, Q, F], possibly negative
