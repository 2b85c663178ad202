"""De Brebisson and Vincent (2016): dot-product attention without a softmax, whose memory is a matrix of fixed size."""

from typing import Literal

from memattn.attention import ops
from memattn.attention.base import AttentionMechanism
from memattn.attention.configured import Initializer
from memattn.options import PositiveInt


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

    has_signed_weights = True

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

    def _make_layers(self, width: int) -> None:
        """Makes the layers that are as wide as the features f_t."""
        self.query_layer = self.make_dense(width, "query")
        if self.gated:
            starts = {"kernel_initializer": "zeros", "bias_initializer": "ones"}
            self.gate_layer = self.make_dense(width, "gate", activation="sigmoid", use_bias=True, **starts)

    def memorize(self, states, mask):
        if self.query_layer is None:
            self._make_layers(self.context_size(states.shape[-1]))
        features = states if self.projection_layer is None else self.projection_layer(states)
        if self.gate_layer is not None:
            features = features * self.gate_layer(features)
        features = features * ops.expand_dims(ops.cast(mask, features.dtype), -1)  # [B, S, F]
        scaled = features
        if self.normalize == "length":
            lengths = ops.sum(ops.cast(mask, ops.sum_dtype(features.dtype)), 1)[:, None, None]
            scaled = features * ops.cast(ops.reciprocal_no_nan(lengths), features.dtype)
        return {"values": ops.matmul(scaled, features, transpose_a=True), "scaled": scaled}  # "values" is C [B, F, F]

    def score(self, query, memory, state=(), seed=None):
        return self.query_layer(query), state  # [B, Q, F], possibly negative

    def alignments(self, memory, scores):
        return ops.matmul(scores, memory["scaled"], transpose_b=True)  # [B, Q, S], possibly negative
