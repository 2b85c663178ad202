"""Monotonic attention with a softmax over a chunk at each stop: MoChA (Chiu and Raffel, 2018), and MAtChA."""

from memattn.attention import ops
from memattn.attention.monotonic import HardStops, MonotonicAttention, next_alpha
from memattn.options import PositiveInt


class _ChunkAttention(MonotonicAttention):
    """Monotonic attention with a second energy u, for a softmax over the positions around a stop."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.chunk_energy = self._make_energy(None, "chunk")

    def memorize(self, states, mask):
        return {**super().memorize(states, mask), "chunk_keys": self.chunk_energy.keys(states)}


class MochaAttention(_ChunkAttention):
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

    def __init__(self, *, chunk_size: PositiveInt | None = 2, **kwargs):
        super().__init__(**kwargs)
        self.chunk_size = None if chunk_size is None else int(chunk_size)

    def score(self, query, memory, state, seed=None):
        alpha = next_alpha(self._p(query, memory, seed), state)
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


class MatchaAttention(_ChunkAttention):
    """beta_j = sum_{m <= j <= k} P(m, k) softmax(u_m .. u_k)_j, P(m, k) = alpha'_m p_k prod_{m <= l < k} (1 - p_l).

    p_k is the probability of stopping at k, as in monotonic attention; u is a second energy, as in MoChA. alpha' is
    alpha of the previous step. P(m, k) is the probability that the previous step stopped at m and this step stops at
    k. Time and memory of a soft step grow with the square of the source's length. Energies u of a source may differ by
    at most 80.

    Raffel's slides name the mechanism without a formula; the definition here is our own.

    Args:
      **kwargs: see `MonotonicAttention`; `units` is for both energies, `offset` and `noise` are for that of stopping.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = MatchaAttention(units=16)(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    def for_search(self):
        return self  # a chunk may be the whole source

    def score(self, query, memory, state, seed=None):
        p = self._p(query, memory, seed)
        energies = self.chunk_energy(query, memory["chunk_keys"])
        if seed is None and self.test_mode == "hard":
            alpha = next_alpha(p, state)  # 1 at one position at most
            chunk = (ops.cumsum(state, -1) * ops.cumsum(alpha, -1, reverse=True) > 0.5) & memory["mask"][:, None]
            return ops.cast(ops.masked_softmax(energies, chunk), query.dtype), alpha
        positions = ops.arange(ops.shape(p)[2])
        reached = ops.cast(positions[:, None] <= positions, p.dtype)  # [m, k]: 1 where m <= k
        # log prod_{l < k} (1 - p_l); a factor of 0, where p_l is 1, counts as exp(-85).
        passed = ops.cumsum(ops.log(ops.maximum(1 - p, 1e-37)), -1, exclusive=True)
        waits = ops.exp(ops.where(reached > 0, passed[:, :, None] - passed[..., None], -1e9))  # [B, Q, m, k]
        joint = state[..., None] * waits * p[:, :, None]  # P(m, k)
        energies = ops.where(memory["mask"][:, None], energies, -1e9)
        exponentials = ops.exp(energies - ops.max(energies, -1, keepdims=True))
        # Sums are products with `reached`: faster than ops.cumulative_logsumexp, under XLA by far.
        totals = ops.einsum("bqml,lk->bqmk", exponentials[:, :, None] * reached, reached)  # over m <= l <= k
        fractions = joint * ops.exp(-ops.log(ops.maximum(totals, 1e-35)))  # a division's gradient would overflow
        fractions = ops.einsum("bqmk,jk->bqmj", fractions, reached)  # [B, Q, m, j]: sums over k >= j
        beta = exponentials * ops.sum(fractions * reached, 2)
        return ops.cast(beta, query.dtype), ops.sum(joint, 2)


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
        return ops.SparseScores(positions, ops.cast(ops.masked_softmax(energies, in_chunk), query.dtype)), stop


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
    positions = ops.arange(ops.shape(alpha)[2])
    up_to = positions <= positions[:, None]  # [k, j]
    exponents = ops.where(up_to, energies[:, :, None] - totals[..., None], -1e9)  # [B, Q, k, j], at most 0
    return ops.einsum("bqk,bqkj->bqj", alpha, ops.exp(exponents))
