"""A fixed-size memory of a sequence as a layer alone: any attention of Keras can read its slots."""

from typing import Literal

import keras

from memattn import options
from memattn.attention import ops
from memattn.attention.configured import ConfiguredLayer
from memattn.attention.initializers import Initializer, initializer_of
from memattn.attention.stretch_means import stretch_weights
from memattn.attention.windowed_memory import with_windows
from memattn.options import PositiveInt


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
      num_slots: K, the number of slots; at least 1.
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
        given = {"num_slots": num_slots, "writing": writing, "initializer": initializer}
        options.arguments(self.constructor_arguments(), given, type(self).__name__)
        self.num_slots, self.writing, self.initializer = int(num_slots), writing, initializer
        self.supports_masking = True
        self.encoder_scores = None
        if writing != "means":
            start = initializer_of("encoder_scores", initializer)
            self.encoder_scores = keras.layers.Dense(  # W_alpha
                self.num_slots, use_bias=False, kernel_initializer=start, dtype=self.dtype_policy, name="encoder_scores"
            )

    def build(self, states_shape):
        if self.encoder_scores is not None:
            self.encoder_scores.build(states_shape)
        self.built = True

    def call(self, states, mask=None, return_attention_scores=False):
        """Returns the slots [B, K, D] of states [B, S, D].

        With `return_attention_scores`, returns the pair of the slots and the weights [B, K, S] that wrote them.
        """
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
            logits = with_windows(logits, mask)
        return ops.masked_softmax(logits, ops.expand_dims(mask, -1), axis=1)

    def compute_mask(self, states, mask=None):
        """Returns no mask: all slots are real."""
        return

    def compute_output_shape(self, states_shape):
        return (states_shape[0], self.num_slots, states_shape[2])

    def compute_output_spec(self, states, mask=None, return_attention_scores=False):
        """Returns symbolic outputs for the functional API of Keras 3."""
        shapes = [self.compute_output_shape(states.shape), (states.shape[0], self.num_slots, states.shape[1])]
        slots, weights = (keras.KerasTensor(shape, self.compute_dtype) for shape in shapes)
        return (slots, weights) if return_attention_scores else slots
