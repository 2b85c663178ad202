"""Tensor functions of the layers: those of the backend of Keras, by the names of keras.ops, and functions made of them.

A size, as `shape` returns it, is a scalar tensor on TensorFlow and an int elsewhere.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import ml_dtypes

if TYPE_CHECKING or keras.backend.backend() == "tensorflow":
    from memattn.attention.tensorflow_ops import *
else:
    from memattn.attention.keras_ops import *


def padding_last(values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Moves padding of values [B, S, D] to the end; the other positions keep their order.

    Returns the moved values, their mask, and the new index of each position, [B, S].
    """
    real = cast(mask, "int32")
    lengths = sum(real, 1, keepdims=True)
    indices = where(mask, cumsum(real, 1), lengths + cumsum(1 - real, 1)) - 1
    order = argsort(indices, 1)
    return gather(values, order), arange(shape(mask)[1]) < lengths, indices


def sum_dtype(dtype: Any) -> str:
    """Returns the type for sums and positions beside tensors of `dtype`: float64 for float64, else float32."""
    return "float64" if dtype_name(dtype) == "float64" else "float32"


def masked_softmax(logits: Tensor, mask: Tensor, axis: int = -1) -> Tensor:
    """Returns the softmax over an axis where `mask` is true, and 0 elsewhere, even if all of `mask` is false."""
    low = convert_to_tensor(float(ml_dtypes.finfo(dtype_name(logits.dtype)).min) / 2, logits.dtype)
    return where(mask, softmax(where(mask, logits, low), axis), zeros([], logits.dtype))


def additive_energies(queries: Tensor, keys: Tensor, v: Variable) -> Tensor:
    """Returns v . tanh(q + k) [B, Q, M] for projected queries [B, Q, U] and keys [B, M, U] (Bahdanau et al., 2015)."""
    return einsum("bqmu,u->bqm", tanh(queries[:, :, None] + keys[:, None]), cast(v, queries.dtype))


class SparseScores(NamedTuple):
    """Scores of N source positions for each query; all other positions have the score 0."""

    positions: Tensor  # int [B, Q, N]; a position may be repeated
    weights: Tensor  # their scores [B, Q, N]


def contexts(scores: Tensor | SparseScores, values: Tensor) -> Tensor:
    """Returns the contexts scores @ values [B, Q, D] (Eqs. 1 and 6) for scores [B, Q, M] and values [B, M, D]."""
    if isinstance(scores, SparseScores):
        rows = gather(values, scores.positions)  # [B, Q, N, D]
        return sum(scores.weights[..., None] * rows, 2)
    return matmul(scores, values)


def dense_scores(scores: Tensor | SparseScores, length: int | Tensor) -> Tensor:
    """Returns scores as a tensor [B, Q, length]; weights of a repeated position are added."""
    if not isinstance(scores, SparseScores):
        return scores
    is_there = one_hot(scores.positions, length, dtype=scores.weights.dtype)  # [B, Q, N, length]
    return sum(is_there * scores.weights[..., None], 2)
