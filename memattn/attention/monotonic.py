"""Raffel et al. (2017): monotonic attention, which moves over the source and stops at one position in each step."""

from typing import Annotated, Literal

import keras

from memattn.attention import ops
from memattn.attention.base import AttentionMechanism
from memattn.attention.configured import Initializer, initializer_of
from memattn.options import PositiveInt, Range

_LOWEST = -1e9  # energy of padding, whose sigmoid is 0
_BLOCK = 8  # number of positions that hard attention examines at once


class ScaledEnergy(keras.layers.Layer):
    """Energies g v/||v|| . tanh(W_q h + b + W_k s) + r, with learned scale g and offset r.

    Args:
      units: width of the vectors in the tanh; g starts at 1 / sqrt(units).
      offset: initial value of r; None: no r, for energies of a softmax, which no offset can change.
      initializer: name, config or object, of the weight matrices and v.
    """

    def __init__(self, *, units: int, offset: float | None, initializer: Initializer, **kwargs):
        super().__init__(**kwargs)
        self.units, self.offset = units, offset
        self.query_layer, self.key_layer = (
            keras.layers.Dense(
                units,
                use_bias=name == "query",
                kernel_initializer=initializer_of(f"{self.name}/{name}", initializer),
                dtype=self.dtype_policy,
                name=name,
            )
            for name in ("query", "key")
        )
        self._v_initializer = keras.initializers.get(initializer_of(f"{self.name}/v", initializer))
        self.v = self.g = self.r = None

    def build(self, states_shape):
        """Makes all weights except those of `query_layer`; their paths begin with that of the enclosing layer."""
        constant = keras.initializers.Constant
        self.v = self.add_weight(shape=(self.units,), initializer=self._v_initializer, name="v")
        self.g = self.add_weight(shape=(), initializer=constant(self.units**-0.5), name="g")
        if self.offset is not None:
            self.r = self.add_weight(shape=(), initializer=constant(self.offset), name="r")
        self.key_layer.build(states_shape)
        self.built = True

    def keys(self, states: ops.Tensor) -> ops.Tensor:
        """Returns the keys [B, S, units] of states [B, S, D]; must be called before energies are computed."""
        if not self.built:
            self.build(states.shape)
        return self.key_layer(states)

    def call(self, query: ops.Tensor, keys: ops.Tensor) -> ops.Tensor:
        """Returns energies [B, Q, S], in float32 or float64, of queries [B, Q, U] and keys [B, S, units]."""
        return self.energies(self.query_layer(query), keys[:, None])

    def energies(self, query: ops.Tensor, keys: ops.Tensor) -> ops.Tensor:
        """Returns energies [B, Q, N] of projected queries [B, Q, units] and N keys for each, [B, Q, N, units].

        `query_layer` projects the queries; the axis Q of the keys may be 1.
        """
        hidden = ops.tanh(query[:, :, None] + keys)
        dtype = ops.sum_dtype(hidden.dtype)
        v, g = ops.cast(self.v, dtype), ops.cast(self.g, dtype)
        direction = v * ops.rsqrt(ops.maximum(ops.sum(ops.square(v)), 1e-12))  # v / ||v||; 0 for v = 0
        direction = ops.cast(g * direction, hidden.dtype)
        energies = ops.cast(ops.einsum("bqsu,u->bqs", hidden, direction), dtype)
        return energies if self.r is None else energies + ops.cast(self.r, dtype)


class MonotonicAttention(AttentionMechanism):
    """Moves from where the previous step stopped; stops at each position with probability p = sigmoid(energy).

    The weights alpha are the probabilities that the step stops at each position. A step may also pass the end of the
    source without stopping: the weights then sum to less than 1, and the context shrinks towards 0.

    The paper is Raffel et al. (2017), https://arxiv.org/abs/1704.00784.

    Args:
      units: width of the vectors from which the energy is computed.
      offset: initial value of r, which is added to the energy. At first, a soft step without noise advances by about
        e^-r positions; with r below 0, a hard step passes the end of the source.
      noise: standard deviation of the normal noise that training adds to the energy; it drives p to 0 or 1.
      test_mode: outside training, "hard" stops at the first position with p > 0.5; "soft" uses the probabilities.
      initializer: name, config or object, of the weight matrices and v.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = MonotonicAttention(units=16, test_mode="soft")(queries, states)
      >>> tuple(context.shape)
      (2, 3, 8)
    """

    reads_in_order = True

    def __init__(
        self,
        *,
        units: PositiveInt,
        offset: float = -1.0,
        noise: Annotated[float, Range(at_least=0)] = 1.0,
        test_mode: Literal["hard", "soft"] = "hard",
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units, self.test_mode = int(units), test_mode
        self.offset, self.noise = float(offset), float(noise)
        self.initializer = initializer
        self.stop_energy = self._make_energy(self.offset, "stop")

    def memorize(self, states, mask):
        lengths = ops.sum(ops.cast(mask, "int32"), 1)  # [B]; padding comes last
        return {"values": states, "mask": mask, "stop_keys": self.stop_energy.keys(states), "lengths": lengths}

    def initial_state(self, memory, num_queries):
        """Returns alpha [B, Q, S] before the first step, as if a step had stopped at the first position."""
        sizes = ops.shape(memory["values"])
        first = ops.zeros([sizes[0], num_queries], "int32")
        alpha = ops.one_hot(first, sizes[1], dtype=ops.sum_dtype(memory["values"].dtype))
        return ops.ensure_shape(alpha, [None, num_queries, memory["values"].shape[1]])

    def score(self, query, memory, state, seed=None):
        alpha = next_alpha(self._p(query, memory, seed), state)  # in float32 or float64
        return ops.cast(alpha, query.dtype), alpha

    def for_search(self):
        return HardStops(self) if self.test_mode == "hard" else self

    def _p(self, query: ops.Tensor, memory: dict, seed: ops.Tensor | None) -> ops.Tensor:
        """Returns p [B, Q, S], the probability of stopping at each position if the step reaches it."""
        energies = self.stop_energy(query, memory["stop_keys"])
        if seed is not None:
            noise = ops.normal(ops.shape(energies), seed, energies.dtype)
            energies = energies + self.noise * noise
        energies = ops.where(memory["mask"][:, None], energies, _LOWEST)
        if seed is None and self.test_mode == "hard":
            return ops.cast(energies > 0, energies.dtype)
        return ops.sigmoid(energies)

    def _make_energy(self, offset: float | None, name: str) -> ScaledEnergy:
        return ScaledEnergy(
            units=self.units, offset=offset, initializer=self.initializer, dtype=self.dtype_policy, name=name
        )


class HardStops:
    """Hard monotonic attention for a search: the score is 1 at the position where a step stops.

    The state is the position of the last stop [B, Q], or S after a step has passed the end of the source.
    """

    def __init__(self, attention: MonotonicAttention):
        self.attention = attention

    def initial_state(self, memory: dict[str, ops.Tensor], num_queries: int) -> ops.Tensor:
        return ops.zeros([ops.shape(memory["values"])[0], num_queries], "int32")

    def score(
        self, query: ops.Tensor, memory: dict[str, ops.Tensor], state: ops.Tensor, seed: ops.Tensor | None = None
    ) -> tuple[ops.SparseScores, ops.Tensor]:
        """Returns the score of one position, and the next state. A search passes no `seed`: there is no noise."""
        stop, length = self.next_stop(query, memory, state), ops.shape(memory["values"])[1]
        positions = ops.minimum(stop, length - 1)[..., None]
        return ops.SparseScores(positions, ops.cast(stop < length, query.dtype)[..., None]), stop

    def next_stop(self, query: ops.Tensor, memory: dict, start: ops.Tensor) -> ops.Tensor:
        """Returns the first position [B, Q], from `start` [B, Q] on, whose energy is above 0; S if there is none.

        Examines _BLOCK positions at a time until every query of the batch has stopped, or is at the end of its source.
        So a step takes as many blocks as the query that moves farthest.
        """
        energy = self.attention.stop_energy
        length = ops.shape(memory["values"])[1]
        lengths = memory["lengths"][:, None]
        projected = energy.query_layer(query)

        def undecided(start, stop):
            return ops.any((stop == length) & (start < lengths))

        def examine_block(start, stop):
            positions = start[..., None] + ops.arange(_BLOCK)  # [B, Q, _BLOCK]
            keys = ops.gather(memory["stop_keys"], ops.minimum(positions, length - 1))
            stops_here = (energy.energies(projected, keys) > 0) & (positions < lengths[..., None])
            first = ops.min(ops.where(stops_here, positions, length), -1)
            return start + _BLOCK, ops.minimum(stop, first)

        return ops.while_loop(undecided, examine_block, (start, ops.zeros_like(start) + length))[1]


def next_alpha(p: ops.Tensor, previous: ops.Tensor) -> ops.Tensor:
    """Returns alpha_j = p_j sum_{k <= j} alpha'_k prod_{k <= l < j} (1 - p_l), [B, Q, S].

    p [B, Q, S] are the probabilities of stopping at each position if the step reaches it; alpha' is `previous`, the
    weights of the step before. Solves q_j = (1 - p_{j-1}) q_{j-1} + alpha'_j in log2 S doublings; alpha_j = p_j q_j.
    There is no division, and all factors are at most 1.
    """
    passing = ops.pad(1 - p, [[0, 0], [0, 0], [1, 0]])[:, :, :-1]  # 1 - p of the position before
    return p * linear_recurrence(passing, previous)


def linear_recurrence(factors: ops.Tensor, terms: ops.Tensor) -> ops.Tensor:
    """Returns x over the last axis: x_j = factors_j x_{j-1} + terms_j, where x_{-1} = 0."""
    length, leading = ops.shape(terms)[-1], [[0, 0]] * (len(terms.shape) - 1)
    ops.unify_shapes(factors, terms)

    def shifted(x, shift):
        moved = ops.pad(x, [*leading, [shift, 0]])[..., :length]
        ops.unify_shapes(moved, x)  # a loop must keep its shapes, and padding loses them
        return moved

    def doubled(shift, factors, terms):
        return 2 * shift, factors * shifted(factors, shift), terms + factors * shifted(terms, shift)

    if (static_length := terms.shape[-1]) is not None:
        shift = 1
        while shift < static_length:
            shift, factors, terms = doubled(shift, factors, terms)
        return terms
    return ops.while_loop(lambda shift, *_: shift < length, doubled, (1, factors, terms))[2]
