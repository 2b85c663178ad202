"""Attention of Bahdanau et al. (2015) and Luong et al. (2015): by content, over a source or a window; by location."""

from typing import Annotated, TypeAlias

import keras

from memattn.attention import ops
from memattn.attention.base import AttentionMechanism
from memattn.attention.configured import Initializer, initializer_of
from memattn.options import PositiveInt, Range

Scale: TypeAlias = Annotated[float, Range(above=0)]


class BahdanauAttention(AttentionMechanism):
    """Content attention (Britz et al., 2017, Eqs. 1 and 2) with the additive score v . tanh(W_q h + b + W_k s).

    The score is that of Bahdanau, Cho and Bengio (2015), https://arxiv.org/abs/1409.0473.

    Args:
      units: width U of keys, projected queries and v.
      cache_keys: project the encoder states once per source; False: in every decoder step, as in google/seq2seq.
      initializer: name, config or object, of the weight matrices and v.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> attention = BahdanauAttention(units=16)
      >>> context, weights = attention(queries, states, return_attention_scores=True)
      >>> np.allclose(keras.ops.convert_to_numpy(keras.ops.sum(weights, -1)), 1)
      True
    """

    def __init__(
        self, *, units: PositiveInt, cache_keys: bool = True, initializer: Initializer = "glorot_uniform", **kwargs
    ):
        super().__init__(**kwargs)
        self.units, self.cache_keys = int(units), cache_keys
        self.initializer = initializer
        self.query_layer = self.make_dense(self.units, "query", use_bias=True)
        self.key_layer = self.make_dense(self.units, "key")
        self._v_initializer = keras.initializers.get(initializer_of("v", initializer))
        self.v = None

    def memorize(self, states, mask):
        if self.v is None:  # not in the constructor: a weight's path begins with that of the enclosing layer
            self.v = self.add_weight(shape=(self.units,), initializer=self._v_initializer, name="v")
        memory = {"values": states, "mask": mask}
        return {**memory, "keys": self.key_layer(states)} if self.cache_keys else memory

    def score(self, query, memory, state=(), seed=None):
        keys = memory["keys"] if self.cache_keys else self.key_layer(memory["values"])  # [B, S, U]
        energies = ops.additive_energies(self.query_layer(query), keys, self.v)  # [B, Q, S]
        return ops.masked_softmax(energies, memory["mask"][:, None]), state


class LuongAttention(AttentionMechanism):
    """Content attention (Britz et al., 2017, Eqs. 1 and 2) with the bilinear score h^T W s, times a scale.

    The score is "general" of Luong, Pham and Manning (2015), https://arxiv.org/abs/1508.04025.

    Args:
      units: width U of the queries, to which the encoder states are projected once per source.
      scale: factor of the score: 1 in the paper; U**-0.5 in Vaswani et al. (2017), https://arxiv.org/abs/1706.03762.
      initializer: name, config or object, of W.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = LuongAttention(units=16)(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    def __init__(
        self, *, units: PositiveInt, scale: Scale = 1.0, initializer: Initializer = "glorot_uniform", **kwargs
    ):
        super().__init__(**kwargs)
        self.units, self.scale = int(units), float(scale)
        self.initializer = initializer
        self.key_layer = self.make_dense(self.units, "key")

    def memorize(self, states, mask):
        return {"values": states, "keys": self.scale * self.key_layer(states), "mask": mask}

    def score(self, query, memory, state=(), seed=None):
        return ops.masked_softmax(_products(query, memory["keys"]), memory["mask"][:, None]), state


class LuongDotAttention(AttentionMechanism):
    """Content attention (Britz et al., 2017, Eqs. 1 and 2) with the dot product h^T s, times a scale; it needs U = D.

    The score is "dot" of Luong, Pham and Manning (2015), https://arxiv.org/abs/1508.04025.

    Args:
      scale: factor of the score: 1 in the paper; U**-0.5 in Vaswani et al. (2017), https://arxiv.org/abs/1706.03762.

    Example:
      >>> queries, states = np.random.rand(2, 3, 8), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = LuongDotAttention()(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    equal_widths = True

    def __init__(self, *, scale: Scale = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.scale = float(scale)

    def memorize(self, states, mask):
        return {"values": states, "mask": mask}

    def score(self, query, memory, state=(), seed=None):
        return ops.masked_softmax(_products(self.scale * query, memory["values"]), memory["mask"][:, None]), state


def _products(queries: ops.Tensor, keys: ops.Tensor) -> ops.Tensor:
    """Returns the products [B, Q, S] of queries and keys. Raises ValueError if their widths differ."""
    if queries.shape[-1] != keys.shape[-1]:
        widths = f"queries are {queries.shape[-1]} wide and keys {keys.shape[-1]}"
        raise ValueError(f"{widths} (`units`, or the width of the values); they must be equal")
    return ops.matmul(queries, keys, transpose_b=True)


class _LocalAttention(LuongAttention):
    """A softmax over the source positions at most `window` from a centre."""

    def __init__(self, *, window: PositiveInt = 10, **kwargs):
        super().__init__(**kwargs)
        self.window = int(window)

    def memorize(self, states, mask):
        positions = ops.cumsum(ops.cast(mask, "int32"), 1) - 1  # [B, S]; padding does not count
        return {**super().memorize(states, mask), "positions": positions}

    def _in_window(
        self, query: ops.Tensor, memory: dict[str, ops.Tensor], centres: ops.Tensor
    ) -> tuple[ops.Tensor, ops.Tensor]:
        """Returns the softmax [B, Q, S] over the window around `centres` [B, Q, 1], and the distances to these."""
        distances = ops.cast(memory["positions"], centres.dtype)[:, None] - centres
        in_window = memory["mask"][:, None] & (ops.abs(distances) <= self.window)
        return ops.masked_softmax(_products(query, memory["keys"]), in_window), distances


class LocalMonotonicAttention(_LocalAttention):
    """local-m: in step t, counted from 0, a softmax of h^T W s over the source positions t - w to t + w.

    The paper is Luong, Pham and Manning (2015), https://arxiv.org/abs/1508.04025.

    Args:
      window: w, positions on each side.
      **kwargs: see `LuongAttention`.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> attention = LocalMonotonicAttention(units=16, window=1)
      >>> _, weights = attention(queries, states, return_attention_scores=True)
      >>> keras.ops.convert_to_numpy(weights[0, 2] > 0).tolist()  # step 2 reads positions 1 to 3
      [False, True, True, True, False, False, False]
    """

    def initial_state(self, memory, num_queries):
        return ops.zeros([ops.shape(memory["values"])[0], num_queries, 1], "int32")  # steps so far

    def score(self, query, memory, state, seed=None):
        weights, _ = self._in_window(query, memory, state)
        return weights, state + 1


class LocalPredictiveAttention(_LocalAttention):
    """local-p: a softmax over the source positions p - w to p + w, times a Gaussian around p of deviation w / 2.

    The query predicts p = (S - 1) sigmoid(v_p . tanh(W_p h)), where S is the source's length and positions count from
    0. The weights are not normalized after the Gaussian.

    The paper is Luong, Pham and Manning (2015), https://arxiv.org/abs/1508.04025.

    Args:
      window: w, positions on each side.
      **kwargs: see `LuongAttention`; `initializer` is for W_p and v_p, too.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = LocalPredictiveAttention(units=16, window=2)(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.position_layer = self.make_dense(self.units, "position", activation="tanh")
        self.position_v = self.make_dense(1, "position_v")

    def memorize(self, states, mask):
        lengths = ops.sum(ops.cast(mask, "int32"), 1)[:, None, None]  # [B, 1, 1]
        return {**super().memorize(states, mask), "last": ops.maximum(lengths - 1, 0)}

    def score(self, query, memory, state=(), seed=None):
        dtype = ops.sum_dtype(query.dtype)
        fractions = ops.sigmoid(ops.cast(self.position_v(self.position_layer(query)), dtype))  # [B, Q, 1]
        centres = ops.cast(memory["last"], dtype) * fractions
        weights, distances = self._in_window(query, memory, centres)
        gaussian = ops.exp(-0.5 * ops.square(distances / (self.window / 2)))
        return weights * ops.cast(gaussian, weights.dtype), state


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
        logits = ops.pad(logits, [[0, 0], [0, 0], [0, length]])  # for a source of any length
        logits = ops.ensure_shape(logits[:, :, :length], [None, None, memory["values"].shape[1]])
        return ops.masked_softmax(logits, memory["mask"][:, None]), state
