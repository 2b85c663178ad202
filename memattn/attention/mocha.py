"""Chiu and Raffel (2018): monotonic chunkwise attention (MoChA), a softmax over the positions before each stop."""

from memattn.attention import ops
from memattn.attention.monotonic import HardStops, MonotonicAttention
from memattn.attention.sparse import SparseScores
from memattn.options import PositiveInt


class MochaAttention(MonotonicAttention):
    """beta_j = sum_k alpha_k softmax(u_{k-w+1} .. u_k)_j, where alpha is monotonic attention's and u a second energy.

    The paper is Chiu and Raffel (2018), https://arxiv.org/abs/1712.05382; that of MILk, https://arxiv.org/abs/1906.05218.

    Args:
      chunk_size: w, positions of a chunk, which ends where attention stops; None: the chunk begins with the source
        (MILk, Arivazhagan et al., 2019).
      **kwargs: see `MonotonicAttention`; `units` is for both energies, `offset` and `noise` are for that of stopping.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = MochaAttention(units=16, chunk_size=3)(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    _mixes_chunks = True

    def __init__(self, *, chunk_size: PositiveInt | None = 2, **kwargs):
        super().__init__(**kwargs)
        self.chunk_size = None if chunk_size is None else int(chunk_size)

    def score(self, query, memory, state, seed=None):
        alpha = self._alpha(query, memory, state, seed)
        energies = self.chunk_energy(query, memory["chunk_keys"])
        mask = ops.broadcast_to(memory["mask"][:, None], ops.shape(energies))
        if self.chunk_size is None:
            beta = _growing_chunks(alpha, energies, mask)
        else:
            beta = _equal_chunks(self.chunk_size, alpha, energies, mask)
        return ops.cast(beta, query.dtype), alpha  # the next step begins from alpha, not beta

    def for_search(self):
        if self.test_mode == "soft" or self.chunk_size is None:  # scores would not be sparse
            return self
        return HardChunks(self)


class HardChunks(HardStops):
    """Hard MoChA for a search: scores of the chunk that ends where a step stops."""

    attention: MochaAttention

    def score(self, query, memory, state, seed=None):
        stop, length = self.next_stop(query, memory, state), ops.shape(memory["values"])[1]
        positions = stop[..., None] + ops.arange(1 - self.attention.chunk_size, 1)  # [B, Q, w]
        in_chunk = (positions >= 0) & (stop < length)[..., None]
        positions = ops.clip(positions, 0, length - 1)
        energy = self.attention.chunk_energy
        keys = ops.gather(memory["chunk_keys"], positions)
        energies = energy.energies(energy.query_layer(query), keys)
        return SparseScores(positions, ops.cast(ops.masked_softmax(energies, in_chunk), query.dtype)), stop


def _equal_chunks(width: int, alpha: ops.Tensor, energies: ops.Tensor, mask: ops.Tensor) -> ops.Tensor:
    """Returns beta [B, Q, S] for chunks of `width` positions that end at a stop; `mask` is false for padding."""
    length = ops.shape(alpha)[2]
    windows, is_real = (
        ops.stack([ops.pad(x, [[0, 0], [0, 0], [width - 1, 0]])[:, :, i : i + length] for i in range(width)], -1)
        for x in (energies, mask)
    )  # [B, Q, S, w]: positions k - w + 1 to k for each position k
    weights = alpha[..., None] * ops.masked_softmax(windows, is_real)
    # Item i of a window lies w - 1 - i positions before the window's last.
    addends = [
        ops.pad(weights[..., i], [[0, 0], [0, 0], [0, width - 1 - i]])[:, :, width - 1 - i :] for i in range(width)
    ]
    return ops.sum(ops.stack(addends, -1), -1)


def _growing_chunks(alpha: ops.Tensor, energies: ops.Tensor, mask: ops.Tensor) -> ops.Tensor:
    """Returns beta [B, Q, S] for chunks from the first position to a stop; `mask` is false for padding."""
    energies = ops.where(mask, energies, -1e9)
    totals = ops.cumulative_logsumexp(energies, -1)  # over the positions up to k
    length = ops.shape(alpha)[2]
    up_to = ops.tril(ops.ones([length, length], "bool"))  # [k, j]: j <= k
    exponents = ops.where(up_to, energies[:, :, None] - totals[..., None], -1e9)  # [B, Q, k, j], at most 0
    return ops.einsum("bqk,bqkj->bqj", alpha, ops.exp(exponents))
