"""Chiu and Raffel (2018): monotonic chunkwise attention (MoChA), a softmax over the positions before each stop."""

import tensorflow as tf

from memattn.attention.monotonic import HardStops, MonotonicAttention
from memattn.attention.ops import masked_softmax
from memattn.attention.sparse import SparseScores
from memattn.options import PositiveInt


class MochaAttention(MonotonicAttention):
    """beta_j = sum_k alpha_k softmax(u_{k-w+1} .. u_k)_j, where alpha is monotonic attention's and u a second energy.

    Args:
      chunk_size: w, positions of a chunk, which ends where attention stops; None: the chunk begins with the source
        (MILk, Arivazhagan et al., 2019).
      units: width of the vectors from which both energies are computed.
      offset: initial value of r, which is added to the stop energy. As long as the other terms are near 0, a soft step
        without noise moves on by e^-r positions on average; a hard step passes the end of the source if r is below 0.
      noise: standard deviation of the normal noise that training adds to the stop energy.
      test_mode: outside training, "hard" stops at the first position with p > 0.5; "soft" uses the probabilities.
      initializer: name, config or object, of the weight matrices and v.
    """

    _mixes_chunks = True

    def __init__(self, *, chunk_size: PositiveInt | None = 2, **kwargs):
        super().__init__(**kwargs)
        self.chunk_size = None if chunk_size is None else int(chunk_size)

    def score(self, query, memory, state, seed=None):
        alpha = self._alpha(query, memory, state, seed)
        energies = self.chunk_energy(query, memory["chunk_keys"])
        mask = tf.broadcast_to(memory["mask"][:, None], tf.shape(energies))
        if self.chunk_size is None:
            beta = _growing_chunks(alpha, energies, mask)
        else:
            beta = _equal_chunks(self.chunk_size, alpha, energies, mask)
        return tf.cast(beta, query.dtype), alpha  # the next step begins from alpha, not beta

    def for_search(self):
        if self.test_mode == "soft" or self.chunk_size is None:  # scores would not be sparse
            return self
        return HardChunks(self)


class HardChunks(HardStops):
    """Hard MoChA for a search: scores of the chunk that ends where a step stops."""

    attention: MochaAttention

    def score(self, query, memory, state, seed=None):
        stop, length = self.next_stop(query, memory, state), tf.shape(memory["values"])[1]
        positions = stop[..., None] + tf.range(1 - self.attention.chunk_size, 1)  # [B, Q, w]
        in_chunk = (positions >= 0) & (stop < length)[..., None]
        positions = tf.clip_by_value(positions, 0, length - 1)
        energy = self.attention.chunk_energy
        keys = tf.gather(memory["chunk_keys"], positions, batch_dims=1)
        energies = energy.energies(energy.query_layer(query), keys)
        return SparseScores(positions, tf.cast(masked_softmax(energies, in_chunk), query.dtype)), stop


def _equal_chunks(width: int, alpha: tf.Tensor, energies: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns beta [B, Q, S] for chunks of `width` positions that end at a stop; `mask` is false for padding."""
    length = tf.shape(alpha)[2]
    windows, is_real = (
        tf.stack([tf.pad(x, [[0, 0], [0, 0], [width - 1, 0]])[:, :, i : i + length] for i in range(width)], -1)
        for x in (energies, mask)
    )  # [B, Q, S, w]: positions k - w + 1 to k for each position k
    weights = alpha[..., None] * masked_softmax(windows, is_real)
    # Item i of a window lies w - 1 - i positions before the window's last.
    addends = [
        tf.pad(weights[..., i], [[0, 0], [0, 0], [0, width - 1 - i]])[:, :, width - 1 - i :] for i in range(width)
    ]
    return tf.reduce_sum(tf.stack(addends, -1), -1)


def _growing_chunks(alpha: tf.Tensor, energies: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns beta [B, Q, S] for chunks from the first position to a stop; `mask` is false for padding."""
    energies = tf.where(mask, energies, -1e9)
    totals = tf.math.cumulative_logsumexp(energies, -1)  # over the positions up to k
    length = tf.shape(alpha)[2]
    up_to = tf.linalg.band_part(tf.ones([length, length], tf.bool), -1, 0)  # [k, j]: j <= k
    exponents = tf.where(up_to, energies[:, :, None] - totals[..., None], -1e9)  # [B, Q, k, j], at most 0
    return tf.einsum("bqk,bqkj->bqj", alpha, tf.exp(exponents))
