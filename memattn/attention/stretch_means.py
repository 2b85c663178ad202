"""A baseline without writing weights: each slot is the mean of one of K equal stretches of the source."""

from typing import Any

from memattn.attention import ops
from memattn.attention.slots import SlotReader


class StretchMeansAttention(SlotReader):
    """Makes slot k the mean of the states in the k-th of K equal stretches of the source: C = alpha^T s.

    A source of n positions has stretches of n / K positions. A position that lies in two stretches counts in each by
    the part of it that lies there; so a source shorter than K has the same position in several slots. Nothing is
    learned in writing: a mechanism whose writing weights are learned must be better than this one to be worth them.
    A decoder step reads beta C, where beta is a softmax of the logits that `read` chooses.

    Args:
      num_slots: K, the number of slots; at least 1.
      read: what the logits of beta are: "address", W_beta h (Eq. 7), or "additive", v . tanh(W_q h + b + W_read C_k),
        as in Bahdanau attention.
      read_units: width of v and of the vectors in the tanh; for `read: additive` only.
      initializer: name, config or object, of all weight matrices and v.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = StretchMeansAttention(num_slots=4, read="address")(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    def _alpha(self, states, mask):
        return stretch_weights(self.num_slots, mask, states.dtype)


def stretch_weights(num_slots: int, mask: ops.Tensor, dtype: Any) -> ops.Tensor:
    """Returns alpha [B, S, K]: alpha_tk = |position t in stretch k| / |stretch k|.

    Of n positions, the t-th covers [t - 1, t], and stretch k covers [(k - 1) n / K, k n / K]. `mask` [B, S] is false
    for padding, which belongs to no stretch.
    """
    sum_dtype = ops.sum_dtype(dtype)
    real = ops.expand_dims(ops.cast(mask, sum_dtype), -1)  # [B, S, 1]
    ends = ops.cumsum(real, 1)  # [B, S, 1], t
    stretch = ops.sum(real, 1, keepdims=True) / num_slots  # [B, 1, 1], n / K
    stretch_ends = ops.arange(1, num_slots + 1, dtype=sum_dtype) * stretch  # [B, 1, K]
    overlaps = ops.minimum(ends, stretch_ends) - ops.maximum(ends - 1, stretch_ends - stretch)
    return ops.cast(real * ops.divide_no_nan(ops.relu(overlaps), stretch), dtype)
