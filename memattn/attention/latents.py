"""A baseline whose slots are learned queries that read the source once, as in the Perceiver (Jaegle et al., 2021)."""

import keras

from memattn.attention import ops
from memattn.attention.configured import initializer_of
from memattn.attention.slots import SlotReader


class LatentsAttention(SlotReader):
    """Lets K learned latents z_k attend to the states once per source: the Perceiver's cross-attention, with one head.

    With layer normalization LN, and D the width of a state:

    - alpha_k = softmax over t of (W_q LN(z_k)) . (W_k LN(s_t)) / sqrt(D)
    - y_k = z_k + W_o sum_t alpha_kt W_v LN(s_t)
    - C_k = y_k + W_2 gelu(W_1 LN(y_k) + b_1) + b_2

    Nothing ties a latent to a position of the source. A decoder step reads beta C, as in `WindowedMemoryAttention`. The
    weights of source positions, for pictures, are beta alpha.

    The Perceiver is that of Jaegle et al. (2021), https://arxiv.org/abs/2103.03206.

    Args:
      **kwargs: see `WindowedMemoryAttention`, which reads its slots in the same way; `initializer` is for z, too.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = LatentsAttention(num_slots=4)(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    z: ops.Variable | None = None

    def memorize(self, states, mask):
        width = states.shape[-1]
        if self.z is None:
            self._make_weights(width)
        latents = ops.cast(self.z, states.dtype)[None]  # [1, K, D]
        inputs = self.state_norm(states)
        queries = self.latent_query(self.latent_norm(latents)) / width**0.5  # [1, K, D]
        logits = ops.einsum("bsd,kd->bsk", self.latent_key(inputs), queries[0])
        alpha = ops.masked_softmax(logits, ops.expand_dims(mask, -1), axis=1)  # [B, S, K]
        read = ops.matmul(alpha, self.latent_value(inputs), transpose_a=True)  # [B, K, D]
        slots = latents + self.latent_output(read)
        slots = slots + self.contract(self.expand(self.slot_norm(slots)))
        slots = slots * ops.cast(ops.any(mask, 1), slots.dtype)[:, None, None]  # contexts of an empty source are 0
        return self._with_keys({"values": slots, "alpha": alpha}, slots)

    def _make_weights(self, width: int) -> None:
        initializer = keras.initializers.get(initializer_of("z", self.initializer))
        self.z = self.add_weight(shape=(self.num_slots, width), initializer=initializer, name="z")
        self.latent_query = self.make_dense(width, "latent_query")  # W_q
        self.latent_key = self.make_dense(width, "latent_key")  # W_k
        self.latent_value = self.make_dense(width, "latent_value")  # W_v
        self.latent_output = self.make_dense(width, "latent_output")  # W_o
        self.expand = self.make_dense(width, "expand", use_bias=True, activation="gelu")  # W_1 and b_1
        self.contract = self.make_dense(width, "contract", use_bias=True)  # W_2 and b_2
        self.latent_norm = keras.layers.LayerNormalization(dtype=self.dtype_policy, name="latent_norm")
        self.state_norm = keras.layers.LayerNormalization(dtype=self.dtype_policy, name="state_norm")
        self.slot_norm = keras.layers.LayerNormalization(dtype=self.dtype_policy, name="slot_norm")
