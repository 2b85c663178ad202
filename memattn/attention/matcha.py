"""Monotonic attention with adaptive chunks (MAtChA): a softmax over all positions from one stop to the next.

Raffel's slides name the mechanism without a formula; the definition here is our own.
"""

from memattn.attention import ops
from memattn.attention.monotonic import MonotonicAttention, next_alpha


class MatchaAttention(MonotonicAttention):
    """beta_j = sum_{m <= j <= k} P(m, k) softmax(u_m .. u_k)_j, P(m, k) = alpha'_m p_k prod_{m <= l < k} (1 - p_l).

    p_k is the probability of stopping at k, as in monotonic attention; u is a second energy, as in MoChA. alpha' is
    alpha of the previous step. P(m, k) is the probability that the previous step stopped at m and this step stops at
    k. Time and memory of a soft step grow with the square of the source's length. Energies u of a source may differ by
    at most 80.

    Args:
      **kwargs: see `MonotonicAttention`; `units` is for both energies, `offset` and `noise` are for that of stopping.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = MatchaAttention(units=16)(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    _mixes_chunks = True

    def for_search(self):
        return self  # a chunk may be the whole source

    def score(self, query, memory, state, seed=None):
        p = self._p(query, memory, seed)
        energies = self.chunk_energy(query, memory["chunk_keys"])
        if seed is None and self.test_mode == "hard":
            alpha = next_alpha(p, state)  # 1 at one position at most
            chunk = (ops.cumsum(state, -1) * ops.cumsum(alpha, -1, reverse=True) > 0.5) & memory["mask"][:, None]
            return ops.cast(ops.masked_softmax(energies, chunk), query.dtype), alpha
        length = ops.shape(p)[2]
        reached = ops.triu(ops.ones([length, length], p.dtype))  # [m, k]: 1 where m <= k
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
