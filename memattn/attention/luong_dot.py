"""Luong et al. (2015), the dot score h^T s, with a softmax over the source and without trainable weights."""

import tensorflow as tf

from memattn.attention.base import AttentionMechanism
from memattn.attention.ops import masked_softmax


class LuongDotAttention(AttentionMechanism):
    """Content attention (Britz et al., 2017, Eqs. 1 and 2) with the dot product; it needs U = D."""

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
        energies = tf.matmul(query, values, transpose_b=True)  # [B, Q, S]
        return masked_softmax(energies, memory["mask"][:, None]), state
