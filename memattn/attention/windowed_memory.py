"""Memory attention whose slots are means over stretches of the source, weighted or plain; not in the paper."""

from typing import Any

from memattn.attention import ops
from memattn.attention.slots import SlotReader

LOWEST_WINDOW = -8.0  # least value of a window; W_alpha s_t can still outweigh it


class WindowedMemoryAttention(SlotReader):
    """Makes each slot a weighted mean of the states: C = alpha^T s, with alpha a softmax over the source positions.

    The logits of alpha are W_alpha s_t plus a window: at first, slot k prefers the k-th of K equal stretches of the
    source. A window is at least one position wide; if a source is shorter than K, several slots prefer the same
    position. A decoder step reads beta C, where beta is a softmax of the logits that `read` chooses.

    It extends the memory of Britz, Guan and Luong (2017), https://aclanthology.org/D17-1040/.

    Args:
      num_slots: K, the number of slots; at least 1.
      read: what the logits of beta are: "address", W_beta h (Eq. 7), or "additive", v . tanh(W_q h + b + W_read C_k),
        as in Bahdanau attention.
      read_units: width of v and of the vectors in the tanh; for `read: additive` only.
      initializer: name, config or object, of all weight matrices and v.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> mask = np.arange(7) < np.array([[7], [4]])  # the second source has 4 states
      >>> context = WindowedMemoryAttention(num_slots=4)(queries, states, value_mask=mask)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.encoder_scores = self.make_dense(self.num_slots, "encoder_scores")  # W_alpha

    def _alpha(self, states, mask):
        logits = with_windows(self.encoder_scores(states), mask)
        return ops.masked_softmax(logits, ops.expand_dims(mask, -1), axis=1)


class StretchMeansAttention(SlotReader):
    """Makes slot k the mean of the states in the k-th of K equal stretches of the source: C = alpha^T s.

    A source of n positions has stretches of n / K positions. A position that lies in two stretches counts in each by
    the part of it that lies there; so a source shorter than K has the same position in several slots. Writing has no
    weights: this is the baseline of mechanisms that learn how to write. A decoder step reads beta C, where beta is a
    softmax of the logits that `read` chooses.

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


def with_windows(logits: ops.Tensor, mask: ops.Tensor) -> ops.Tensor:
    """Returns logits [B, S, K] of alpha plus the windows; `mask` [B, S] is false for padding."""
    return logits + ops.cast(position_windows(logits.shape[-1], mask, ops.sum_dtype(logits.dtype)), logits.dtype)


def position_windows(num_slots: int, mask: ops.Tensor, dtype: str) -> ops.Tensor:
    """Returns the windows as logits [B, S, K]: -d^2 / (2 sigma^2), at least LOWEST_WINDOW.

    d is a position's distance to the middle of slot k's stretch; sigma is a quarter of a stretch, or a quarter of one
    position if that is longer. `mask` [B, S] is false for padding, which belongs to no stretch.
    """
    real = ops.cast(mask, dtype)
    positions = ops.expand_dims(ops.cumsum(real, 1), -1) - 0.5  # [B, S, 1], middles of the positions
    stretch = ops.sum(real, 1)[:, None, None] / num_slots  # [B, 1, 1]
    middles = (ops.arange(num_slots, dtype=dtype) + 0.5) * stretch  # [B, 1, K]
    deviation = ops.maximum(stretch, 1.0) / 4
    return ops.maximum(-0.5 * ops.square((positions - middles) / deviation), LOWEST_WINDOW)


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
