"""The interface of every attention mechanism, a Keras layer whose parts the decoder calls; and no attention."""

from typing import Any

import keras
import numpy as np

from memattn.attention import ops
from memattn.attention.configured import ConfiguredLayer


class AttentionMechanism(ConfiguredLayer):
    """Base of attention layers. `memorize` makes a memory once per source, whose values `score` weighs for each query.

    A mechanism defines these two; all else follows from them if the values of the memory are the source states.
    Otherwise, the memory has "alpha", for `alignments`, and the mechanism defines `context_size` if values have another
    width, and `num_slots` if they are slots. The context is always `scores @ memory["values"]`: a decoder step knows
    the source through the memory alone.

    Shapes: B batch, S source length, M values in the memory, D width of a source state and of a value, U width of a
    query, Q queries that share one source: 1 in greedy decoding, the beam size in beam search; in training 1, or the
    target's length T where no step depends on the one before.

    As a layer, `mechanism(query, value)` returns the context [B, T, D] of queries [B, T, U] over values [B, S, D].

    Example:
      >>> from memattn.attention import ops
      >>> class CosineAttention(AttentionMechanism):
      ...     def memorize(self, states, mask):
      ...         return {"values": states, "keys": keras.ops.normalize(states), "mask": mask}
      ...     def score(self, query, memory, state=(), seed=None):
      ...         query = keras.ops.normalize(query)
      ...         logits = ops.matmul(query, memory["keys"], transpose_b=True)  # [B, Q, S]
      ...         return ops.masked_softmax(logits, memory["mask"][:, None]), state
      >>> queries, states = np.random.rand(2, 3, 8), np.random.rand(2, 7, 8)
      >>> tuple(CosineAttention()(queries, states).shape)
      (2, 3, 8)
    """

    num_slots: int | None = None
    """Number of slots of a fixed-size memory; None for a memory without slots."""
    equal_widths = False
    """Whether queries must be as wide as values (U = D)."""
    reads_in_order = False
    """Whether `memorize` needs padding last; `call` then moves it there."""

    def __init_subclass__(cls, **kwargs):
        """Registers the mechanisms of this package for Keras' serialization."""
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("memattn."):
            keras.utils.register_keras_serializable("memattn")(cls)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.supports_jit = ops.COMPILES_RECURRENCE or not self.is_recurrent  # of Keras 3
        self._seeds = ops.seed_generator()
        self._shapes = None

    # What a decoder calls: the memory once per source, scores in each step.

    @property
    def is_recurrent(self) -> bool:
        """Whether `score` hands a state from step to step."""
        return type(self).initial_state is not AttentionMechanism.initial_state

    def context_size(self, value_size: int) -> int:
        """Returns the width of a context for source states of width `value_size`."""
        return value_size

    def memorize(self, states: ops.Tensor, mask: ops.Tensor) -> dict[str, ops.Tensor]:
        """Returns the memory that decoder steps read.

        Every tensor of a memory is batch-leading; "values" is [B, M, D]. Lengths and positions are integers, because
        Keras casts floating tensors of a memory to the compute dtype.

        Args:
          states: [B, S, D]. If `reads_in_order`, padding comes last.
          mask: [B, S], false for padding. It may be false for a whole row; scores of such a row must still be finite,
            as those of `masked_softmax` are.
        """
        raise NotImplementedError("a mechanism defines memorize and score")

    def memorize_in_training(self, states: ops.Tensor, mask: ops.Tensor, seed: ops.Tensor) -> dict[str, ops.Tensor]:
        """Returns the memory of a training step; `seed` [2] is for mechanisms that draw random numbers in training."""
        return self.memorize(states, mask)

    def initial_state(self, memory: dict[str, ops.Tensor], num_queries: int) -> Any:
        """Returns the initial state of a recurrent mechanism, with tensors [B, Q, ...]; () for all other mechanisms."""
        return ()

    def score(
        self, query: ops.Tensor, memory: dict[str, ops.Tensor], state: Any = (), seed: ops.Tensor | None = None
    ) -> tuple[ops.Tensor, Any]:
        """Returns scores [B, Q, M], the weights of the values for queries [B, Q, U], and the next state.

        `seed` [2] is for mechanisms that draw noise in training; None elsewhere. `memorize` and `score` run outside of
        Keras' `__call__`: they get tensors of the compute dtype, and must cast weights that they use themselves.
        """
        raise NotImplementedError("a mechanism defines memorize and score")

    def for_search(self) -> Any:
        """Returns what scores the decoder steps of a search: this mechanism, or an object with less work per step.

        The object has `initial_state` and `score`. Its scores equal those of the mechanism without a seed; they may be
        `memattn.attention.ops.SparseScores`.
        """
        return self

    def alignments(self, memory: dict[str, ops.Tensor], scores: ops.Tensor) -> ops.Tensor:
        """Returns weights of the source positions [B, Q, S], linear in the scores [B, Q, M].

        If the memory has "alpha" [B, S, M], the weights of the source positions in each value, the result is
        scores @ alpha^T; otherwise, it is the scores. Contexts do not depend on it. Pictures, word alignments, the
        coverage penalty and distillation do.
        """
        return ops.matmul(scores, memory["alpha"], transpose_b=True) if "alpha" in memory else scores

    # What Keras calls.

    def build(self, query_shape, value_shape=None):
        """Makes the weights by running one step over one position. Keras 2 passes only the first shape."""
        if value_shape is not None:
            for name, shape in {"query": query_shape, "value": value_shape}.items():
                if shape[-1] is None:
                    raise ValueError(f"{name}: the last axis must have a known width, not shape {tuple(shape)}")
            self._shapes = {"query_shape": tuple(query_shape), "value_shape": tuple(value_shape)}
            with ops.init_scope():
                query, value = (
                    ops.zeros([1, 1, shape[-1]], self.compute_dtype) for shape in (query_shape, value_shape)
                )
                memory = self.memorize(value, ops.ones([1, 1], "bool"))
                self.score(query, memory, self.initial_state(memory, 1))
        self.built = True

    def call(self, query, value, query_mask=None, value_mask=None, return_attention_scores=False, training=None):
        """Returns the context [B, T, D] of queries [B, T, U] over values [B, S, D]; 0 for a masked query.

        A recurrent mechanism takes the queries in order.

        Args:
          query_mask, value_mask: tensors or arrays [B, T] and [B, S], false for padding; by default those that Keras
            attached to query and value.
          return_attention_scores: return the pair of the context and the weights of the source positions [B, T, S].
          training: draw the noise of a training step, for mechanisms that have one.

        Raises ValueError for other shapes and for ragged tensors.
        """
        if query_mask is None:
            query_mask = getattr(query, "_keras_mask", None)
        if value_mask is None:
            value_mask = getattr(value, "_keras_mask", None)
        _check_shapes(query, value, query_mask, value_mask)
        if self._shapes is None:  # Keras 2
            self.build(query.shape, value.shape)
        query, value = (ops.cast(ops.convert_to_tensor(inputs), self.compute_dtype) for inputs in (query, value))
        mask = ops.ones(ops.shape(value)[:2], "bool") if value_mask is None else ops.cast(value_mask, "bool")
        indices = None
        if self.reads_in_order and value_mask is not None:
            value, mask, indices = ops.padding_last(value, mask)
        seed = ops.draw_seed(self._seeds) if training else None
        memory = self.memorize_in_training(value, mask, seed) if training else self.memorize(value, mask)
        scores = self._scores(query, memory, seed, query_mask)
        context = ops.matmul(scores, memory["values"])
        if query_mask is not None:
            is_real = ops.expand_dims(ops.cast(query_mask, "bool"), -1)
            context = ops.where(is_real, context, ops.zeros([], context.dtype))
        if not return_attention_scores:
            return context
        weights = self.alignments(memory, scores)
        if indices is not None:  # back to the order of `value`
            weights = ops.transpose(ops.gather(ops.transpose(weights, [0, 2, 1]), indices), [0, 2, 1])
        return context, weights

    def _scores(
        self, query: ops.Tensor, memory: dict[str, ops.Tensor], seed: ops.Tensor | None, query_mask: ops.Tensor | None
    ) -> ops.Tensor:
        """Returns scores [B, T, M] of all queries, computed one after the other if the mechanism is recurrent.

        A masked query then leaves the state as it is.
        """
        state = self.initial_state(memory, 1)
        if not self.is_recurrent:
            return self.score(query, memory, state, seed)[0]
        is_real = None if query_mask is None else ops.cast(query_mask, "bool")

        def step(time, queries, state):
            def kept(new, old):
                return ops.where(ops.reshape(is_real[:, time], [-1] + [1] * (len(new.shape) - 1)), new, old)

            step_seed = None if seed is None else ops.fold_in(seed, time)
            scores, next_state = self.score(queries, memory, state, step_seed)
            return [scores], next_state if is_real is None else ops.map_structure(kept, next_state, state)

        (scores,) = ops.run_loop(step, state, query, num_outputs=1, dtype=query.dtype)
        return scores

    def compute_output_shape(self, query_shape, value_shape, **_):
        return (*query_shape[:-1], self.context_size(value_shape[-1]))

    def compute_output_spec(
        self, query, value, query_mask=None, value_mask=None, return_attention_scores=False, training=None
    ):
        """Returns symbolic outputs for the functional API of Keras 3."""
        _check_shapes(query, value, query_mask, value_mask)
        shapes = [self.compute_output_shape(query.shape, value.shape), (*query.shape[:2], value.shape[1])]
        context, weights = (keras.KerasTensor(shape, self.compute_dtype) for shape in shapes)
        return (context, weights) if return_attention_scores else context

    def get_build_config(self):
        return self._shapes

    def build_from_config(self, config):
        if config:
            self.build(**config)


class NoAttention(AttentionMechanism):
    """The baseline without attention: the decoder knows the source only through its initial state.

    Example:
      >>> queries, states = np.random.rand(2, 3, 16), np.random.rand(2, 7, 8)  # [B, T, U] and [B, S, D]
      >>> context = NoAttention()(queries, states)
      >>> tuple(context.shape)
      (2, 3, 0)
    """

    num_slots = 0

    def context_size(self, value_size: int) -> int:
        return 0

    def memorize(self, states: ops.Tensor, mask: ops.Tensor) -> dict[str, ops.Tensor]:
        return {"values": states[:, :0, :0], "alpha": states[:, :, :0]}

    def score(self, query, memory, state=(), seed=None):
        return query[:, :, :0], state


def _check_shapes(query, value, query_mask, value_mask) -> None:
    """Raises ValueError for shapes that `call` does not take."""
    queries = masked_shape("query", ("T", "U"), query, "query_mask", query_mask)
    values = masked_shape("value", ("S", "D"), value, "value_mask", value_mask)
    if not _compatible(queries[:1], values[:1]):
        raise ValueError(f"query {queries} and value {values}: batches of different sizes")


def masked_shape(name: str, letters: tuple[str, str], tensor: Any, mask_name: str, mask: Any) -> tuple:
    """Returns the shape of a tensor [B, length, width].

    Raises ValueError if the tensor has other axes, or if there is a mask of other axes than [B, length]. The two
    `letters` stand for length and width in the message.
    """
    shape, (length, width) = _shape(name, tensor), letters
    if len(shape) != 3:
        advice = "a recurrent layer before it needs return_sequences=True"
        raise ValueError(f"{name}: expected [B, {length}, {width}], not shape {shape}; {advice}")
    if mask is not None:
        expected, mask_shape = f"{mask_name}: expected [B, {length}]", _shape(mask_name, mask)
        if len(mask_shape) != 2:
            advice = f"from lengths: arange({length}) < lengths[:, None]"
            raise ValueError(f"{expected}, not shape {mask_shape}; {advice}")
        if not _compatible(mask_shape, shape[:2]):
            raise ValueError(f"{expected} = {shape[:2]}, not shape {mask_shape}")
    return shape


def _compatible(first: tuple, second: tuple) -> bool:
    """Returns whether two shapes of as many axes may be equal; None is an unknown size."""
    return all(a == b or None in (a, b) for a, b in zip(first, second, strict=True))


def _shape(name: str, tensor: Any) -> tuple:
    """Returns the shape of a tensor, array or list. Raises ValueError if it is ragged."""
    if hasattr(tensor, "row_splits") or getattr(tensor, "ragged", False):
        raise ValueError(f"{name}: ragged; pad it, as to_tensor() does, and mark padding by a mask")
    return tuple(tensor.shape if hasattr(tensor, "shape") else np.shape(tensor))
