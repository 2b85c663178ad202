"""Chiu and Raffel (2018): monotonic chunkwise attention (MoChA), a softmax over the positions before each stop."""

from typing import Literal

import tensorflow as tf

from memattn.attention.initializers import Initializer
from memattn.attention.monotonic import HardStops, MonotonicAttention
from memattn.attention.ops import masked_softmax
from memattn.attention.options import whole
from memattn.attention.sparse import SparseScores


class MochaAttention(MonotonicAttention):
    """beta_j = sum_k alpha_k softmax(u_{k-w+1} .. u_k)_j, with alpha of monotonic attention and a second energy u.

    Args:
      chunk_size: w, positions of a chunk, which ends where attention stops; null: the chunk begins with the source
        (MILk, Arivazhagan et al., 2019).
      units: width of both energies.
      offset: r of the stops' energy at the start; the mean wait is 1 / sigmoid(r) positions.
      noise: deviation of the normal noise that training adds to the stops' energies.
      test_mode: without noise, "hard" stops at the first position with p > 0.5; "soft" uses the probabilities.
      initializer: name, config or object, of the weight matrices and v.
    """

    _mixes_chunks = True

    def __init__(
        self,
        *,
        units: int,
        chunk_size: int | None = 2,
        offset: float = -1.0,
        noise: float = 1.0,
        test_mode: Literal["hard", "soft"] = "hard",
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(
            units=units, offset=offset, noise=noise, test_mode=test_mode, initializer=initializer, **kwargs
        )
        self.chunk_size = None if chunk_size is None else int(chunk_size)

    @classmethod
    def check(cls, *, chunk_size, **options):
        super().check(**options)
        if chunk_size is not None:
            whole("chunk_size", chunk_size)

    def score(self, query, memory, state, seed=None):
        alpha = self._stops(query, memory, state, seed)
        energies = self.chunk_energy(query, memory["chunk_keys"])
        mask = tf.broadcast_to(memory["mask"][:, None], tf.shape(energies))
        spread = (_before if self.chunk_size is None else self._chunks)(alpha, energies, mask)
        return tf.cast(spread, query.dtype), alpha  # the next step begins from alpha, not beta

    def for_search(self):
        is_sparse = self.test_mode == "hard" and self.chunk_size is not None
        return HardChunks(self) if is_sparse else self

    def _chunks(self, alpha: tf.Tensor, energies: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """beta [B, Q, S] with chunks of w positions."""
        width, length = self.chunk_size, tf.shape(alpha)[2]
        frames, real = (
            tf.stack([tf.pad(x, [[0, 0], [0, 0], [width - 1, 0]])[:, :, i : i + length] for i in range(width)], -1)
            for x in (energies, mask)
        )  # [B, Q, S, w]: of the position k, those from k - w + 1 to k
        weights = alpha[..., None] * masked_softmax(frames, real)
        # The i-th position of a frame lies w - 1 - i before its last.
        spread = [
            tf.pad(weights[..., i], [[0, 0], [0, 0], [0, width - 1 - i]])[:, :, width - 1 - i :] for i in range(width)
        ]
        return tf.reduce_sum(tf.stack(spread, -1), -1)


class HardChunks(HardStops):
    """Scores of hard MoChA: those of the chunk before each stop."""

    def score(self, query, memory, state, seed=None):
        stop, length = self.next_stop(query, memory, state), tf.shape(memory["values"])[1]
        positions = stop[..., None] + tf.range(1 - self.attention.chunk_size, 1)  # [B, Q, w]
        real = (positions >= 0) & (stop < length)[..., None]
        positions = tf.clip_by_value(positions, 0, length - 1)
        energy = self.attention.chunk_energy
        keys = tf.gather(memory["chunk_keys"], positions, batch_dims=1)
        energies = energy.energies(energy.query_layer(query), keys)
        return SparseScores(positions, tf.cast(masked_softmax(energies, real), query.dtype)), stop


def _before(alpha: tf.Tensor, energies: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """beta [B, Q, S] where a chunk is all that comes before a stop."""
    energies = tf.where(mask, energies, -1e9)
    totals = tf.math.cumulative_logsumexp(energies, -1)  # of the positions up to k
    length = tf.shape(alpha)[2]
    up_to = tf.linalg.band_part(tf.ones([length, length], tf.bool), -1, 0)  # [k, j]: j <= k
    exponents = tf.where(up_to, energies[:, :, None] - totals[..., None], -1e9)  # [B, Q, k, j], at most 0
    return tf.einsum("bqk,bqkj->bqj", alpha, tf.exp(exponents))
