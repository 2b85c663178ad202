"""Slots that are means over stretches of the source, weighted or plain: as attention, and as a memory alone."""

from typing import Any, Literal

import keras

from memattn.attention import ops
from memattn.attention.base import masked_shape
from memattn.attention.configured import ConfiguredLayer, Initializer
from memattn.attention.slots import SlotReader
from memattn.options import PositiveInt

LOWEST_WINDOW = -8.0  # least value of a window; W_alpha s_t can still outweigh it


class WindowedMemoryAttention(SlotReader):
    """Makes each slot a weighted mean of the states: C = alpha^T s, with alpha a softmax over the source positions.

    The logits of alpha are W_alpha s_t plus a window: at first, slot k prefers the k-th of K equal stretches of the
    source. A window is at least one position wide; if a source is shorter than K, several slots prefer the same
    position. A decoder step reads beta C, where beta is a softmax of the logits that `read` chooses.

    It extends the memory of Britz, Guan and Luong (2017), https://aclanthology.org/D17-1040/.

    Args:
      num_slots: K, the number of slots.
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
        logits = self.encoder_scores(states)
        logits += position_windows(self.num_slots, mask, logits.dtype)
        return ops.masked_softmax(logits, ops.expand_dims(mask, -1), axis=1)


class StretchMeansAttention(SlotReader):
    """Makes slot k the mean of the states in the k-th of K equal stretches of the source: C = alpha^T s.

    A source of n positions has stretches of n / K positions. A position that lies in two stretches counts in each by
    the part of it that lies there; so a source shorter than K has the same position in several slots. Writing has no
    weights: this is the baseline of mechanisms that learn how to write.

    Args:
      **kwargs: see `WindowedMemoryAttention`, which reads its slots in the same way.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = StretchMeansAttention(num_slots=4, read="address")(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    def _alpha(self, states, mask):
        return stretch_weights(self.num_slots, mask, states.dtype)


@keras.utils.register_keras_serializable("memattn")
class SlotMemory(ConfiguredLayer):
    """Writes a sequence of states [B, S, D] into K slots [B, K, D], which attention then reads in place of the states.

    Slot k is a weighted mean of the states, C_k = sum_t alpha_tk s_t, where the weights of a slot sum to 1 over the
    positions t. T queries over the slots cost T K products in place of T S. `writing` chooses the weights:

    - "windows": a softmax over t of W_alpha s_t plus a window, by which slot k at first prefers the k-th of K equal
      stretches of the sequence, as in `WindowedMemoryAttention`.
    - "weights": a softmax over t of W_alpha s_t alone.
    - "means": the mean of the k-th of K equal stretches, without trainable weights, as in `StretchMeansAttention`.

    The memory is that of Britz, Guan and Luong (2017, https://arxiv.org/abs/1707.00110), whose slots are sums, with
    alpha_t a softmax over the K slots (`MemoryAttention`). A mean is as large as a state, however long the sequence.
    The name leaves "attention" out: this is the memory without the attention that reads it.

    The mask of Keras, or `mask` [B, S], is false for padding, which gets the weight 0 wherever it stands; if all is
    padding, the slots are 0. The slots have no mask: all of them are real.

    Args:
      num_slots: K, the number of slots.
      writing: how the weights of the slots are made.
      initializer: name, config or object, of W_alpha.

    Example:
      >>> states = keras.random.normal([2, 100, 8])  # [B, S, D]
      >>> slots = SlotMemory(num_slots=16)(states)
      >>> queries = keras.random.normal([2, 3, 8])  # [B, T, D]
      >>> attention = keras.layers.MultiHeadAttention(num_heads=2, key_dim=4)
      >>> context, weights = attention(queries, slots, return_attention_scores=True)
      >>> tuple(context.shape), tuple(weights.shape)
      ((2, 3, 8), (2, 2, 3, 16))
    """

    def __init__(
        self,
        num_slots: PositiveInt,
        writing: Literal["windows", "weights", "means"] = "windows",
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_slots, self.writing, self.initializer = int(num_slots), writing, initializer
        self.supports_masking = True
        self.encoder_scores = None
        if writing != "means":
            self.encoder_scores = self.make_dense(self.num_slots, "encoder_scores")  # W_alpha

    def build(self, states_shape):
        if self.encoder_scores is not None:
            self.encoder_scores.build(states_shape)
        self.built = True

    def call(self, states, mask=None, return_attention_scores=False):
        """Returns the slots [B, K, D] of states [B, S, D].

        With `return_attention_scores`, returns the pair of the slots and the weights [B, K, S] that wrote them. Raises
        ValueError for other shapes and for ragged tensors.
        """
        masked_shape("states", ("S", "D"), states, "mask", mask)
        states = ops.cast(ops.convert_to_tensor(states), self.compute_dtype)
        mask = ops.ones(ops.shape(states)[:2], "bool") if mask is None else ops.cast(mask, "bool")
        alpha = self._alpha(states, mask)
        slots = ops.matmul(alpha, states, transpose_a=True)
        return (slots, ops.transpose(alpha, [0, 2, 1])) if return_attention_scores else slots

    def _alpha(self, states: ops.Tensor, mask: ops.Tensor) -> ops.Tensor:
        """Returns the weights alpha [B, S, K] of the states."""
        if self.encoder_scores is None:
            return stretch_weights(self.num_slots, mask, states.dtype)
        logits = self.encoder_scores(states)
        if self.writing == "windows":
            logits += position_windows(self.num_slots, mask, logits.dtype)
        return ops.masked_softmax(logits, ops.expand_dims(mask, -1), axis=1)

    def compute_mask(self, states, mask=None):
        """Returns no mask: all slots are real."""
        return

    def compute_output_shape(self, states_shape):
        return (states_shape[0], self.num_slots, states_shape[2])

    def compute_output_spec(self, states, mask=None, return_attention_scores=False):
        """Returns symbolic outputs for the functional API of Keras 3."""
        masked_shape("states", ("S", "D"), states, "mask", mask)
        shapes = [self.compute_output_shape(states.shape), (states.shape[0], self.num_slots, states.shape[1])]
        slots, weights = (keras.KerasTensor(shape, self.compute_dtype) for shape in shapes)
        return (slots, weights) if return_attention_scores else slots


def position_windows(num_slots: int, mask: ops.Tensor, dtype: Any) -> ops.Tensor:
    """Returns the windows as logits [B, S, K]: -d^2 / (2 sigma^2), at least LOWEST_WINDOW.

    d is a position's distance to the middle of slot k's stretch; sigma is a quarter of a stretch, or a quarter of one
    position if that is longer. `mask` [B, S] is false for padding, which belongs to no stretch.
    """
    sum_dtype = ops.sum_dtype(dtype)
    real = ops.cast(mask, sum_dtype)
    positions = ops.expand_dims(ops.cumsum(real, 1), -1) - 0.5  # [B, S, 1], middles of the positions
    stretch = ops.sum(real, 1)[:, None, None] / num_slots  # [B, 1, 1]
    middles = (ops.arange(num_slots, dtype=sum_dtype) + 0.5) * stretch  # [B, 1, K]
    deviation = ops.maximum(stretch, 1.0) / 4
    windows = -0.5 * ops.square((positions - middles) / deviation)
    return ops.cast(ops.maximum(windows, LOWEST_WINDOW), dtype)


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
