"""Luong et al. (2015), the general score h^T W s, with a softmax over the source."""

from memattn.attention.base import AttentionMechanism
from memattn.attention.initializers import Initializer
from memattn.attention.ops import masked_softmax, products
from memattn.attention.options import positive_int


class LuongAttention(AttentionMechanism):
    """Content attention (Britz et al., 2017, Eqs. 1 and 2) with the bilinear score.

    Args:
      units: width U of the queries, to which the encoder states are projected once per source.
      initializer: name, config or object, of W.
    """

    def __init__(self, *, units: int, initializer: Initializer = "glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.units = positive_int("units", units)
        self.initializer = initializer
        self.key_layer = self.make_dense(self.units, "key")

    def memorize(self, states, mask):
        return {"values": states, "keys": self.key_layer(states), "mask": mask}

    def score(self, query, memory, state=(), seed=None):
        return masked_softmax(products(query, memory["keys"]), memory["mask"][:, None]), state
