"""Attention by content: a softmax over the source of the scores of Bahdanau et al. (2015) and Luong et al. (2015)."""

import keras

from memattn.attention import ops
from memattn.attention.base import AttentionMechanism
from memattn.attention.configured import Initializer, initializer_of
from memattn.options import PositiveInt


class BahdanauAttention(AttentionMechanism):
    """Content attention (Britz et al., 2017, Eqs. 1 and 2) with the additive score v . tanh(W_q h + b + W_k s).

    The score is that of Bahdanau, Cho and Bengio (2015), https://arxiv.org/abs/1409.0473.

    Args:
      units: width U of keys, projected queries and v.
      cache_keys: project the encoder states once per source; False projects them in every decoder step, as
        google/seq2seq did in 2017.
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
    """Content attention (Britz et al., 2017, Eqs. 1 and 2) with the bilinear score h^T W s.

    The score is "general" of Luong, Pham and Manning (2015), https://arxiv.org/abs/1508.04025.

    Args:
      units: width U of the queries, to which the encoder states are projected once per source.
      initializer: name, config or object, of W.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = LuongAttention(units=16)(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    def __init__(self, *, units: PositiveInt, initializer: Initializer = "glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.units = int(units)
        self.initializer = initializer
        self.key_layer = self.make_dense(self.units, "key")

    def memorize(self, states, mask):
        return {"values": states, "keys": self.key_layer(states), "mask": mask}

    def score(self, query, memory, state=(), seed=None):
        return ops.masked_softmax(ops.products(query, memory["keys"]), memory["mask"][:, None]), state


class LuongDotAttention(AttentionMechanism):
    """Content attention (Britz et al., 2017, Eqs. 1 and 2) with the dot product h^T s; it needs U = D.

    The score is "dot" of Luong, Pham and Manning (2015), https://arxiv.org/abs/1508.04025.

    Example:
      >>> queries, states = np.random.rand(2, 3, 8), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = LuongDotAttention()(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    equal_widths = True

    def memorize(self, states, mask):
        return {"values": states, "mask": mask}

    def score(self, query, memory, state=(), seed=None):
        values = memory["values"]
        if query.shape[-1] != values.shape[-1]:
            raise ValueError(
                f"luong_dot: the queries are {query.shape[-1]} wide and the values {values.shape[-1]}; they must be "
                "equal (in a config: model.encoder_units is half of model.units), or take luong, which projects"
            )
        energies = ops.matmul(query, values, transpose_b=True)  # [B, Q, S]
        return ops.masked_softmax(energies, memory["mask"][:, None]), state
