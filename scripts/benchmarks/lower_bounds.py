"""Computes lower bounds on the multiply-adds of decoding from the algebra alone, and measures their rate."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from studies.mechanisms import MEMORY_VARIANT, NESTED_MEMORY

from memattn.errors import ConfigError


class _Mechanism(NamedTuple):
    """Costs of an attention mechanism, for each of several sources.

    Attributes:
      rows: number of vectors that a decoder step reads.
      per_source: multiply-adds for scores, once per source.
      per_step: multiply-adds for scores in each decoder step.
    """

    rows: np.ndarray
    per_source: np.ndarray
    per_step: np.ndarray


def decoding(
    attention: Mapping[str, Any],
    *,
    source_lengths: np.ndarray,
    steps: int,
    beam_size: int,
    units: int,
    vocabulary: int,
    input_feeding: bool = True,
) -> float:
    """Counts multiply-adds of decoding sources with `steps` steps each: two layers, E = U, D = 2U, a mixing layer.

    Padding is not counted. Token embeddings are folded, and contexts, too, if that takes fewer multiply-adds. Raises
    ConfigError for a mechanism whose scores are not counted here.
    """
    width, hypothesis_steps = 2 * units, beam_size * steps
    encoder = source_lengths * 2 * 2 * (2 * units * 4 * units)  # two layers in two directions
    step = units * 4 * units + 2 * units * 4 * units + units * units + units * vocabulary
    mechanisms = _mechanisms(attention, source_lengths, units, width)
    if attention["name"] not in mechanisms:
        known = ", ".join(mechanisms)
        raise ConfigError(f"model.attention.name: no lower bound for {attention['name']}; known: {known}")
    mechanism = mechanisms[attention["name"]]
    scores = mechanism.per_source + hypothesis_steps * mechanism.per_step
    if not attention.get("cache_keys", True):
        scores += (steps - 1) * source_lengths * width * units
    columns = (5 if input_feeding else 1) * units  # number of columns of the matrices that multiply a context
    context = attention.get("projection") or width  # only linear attention has a projection
    rows = mechanism.rows
    folded = rows * context * columns + hypothesis_steps * rows * columns
    unfolded = hypothesis_steps * (rows * context + np.where(rows > 0, context * columns, 0))
    return float(np.sum(encoder + hypothesis_steps * step + scores + np.minimum(folded, unfolded)))


def _mechanisms(attention: Mapping[str, Any], length: np.ndarray, units: int, width: int) -> dict[str, _Mechanism]:
    """Returns the costs of each mechanism with these options, for sources of these lengths.

    Monotonic mechanisms read all positions in each step, as in training. Additive reading of slots is not counted.
    """
    none = 0 * length
    keys, additive = length * width * units, units * units + length * units
    slots = attention.get("num_slots", 32)
    # A source shorter than the memory: a step reads its states by beta alpha^T, and C is not computed.
    is_short = length < slots
    memory = _Mechanism(
        np.minimum(slots, length),
        length * width * slots * np.where(is_short, 1, 2),
        units * slots + np.where(is_short, slots * length, 0),
    )
    projection = attention.get("projection")
    features = projection or width
    linear = _Mechanism(
        np.full_like(length, features),
        length * features * (features + (width if projection else 0)),
        np.full_like(length, units * features),
    )
    return {
        "none": _Mechanism(none, none, none),
        **dict.fromkeys(("memory", "windowed_memory", MEMORY_VARIANT, NESTED_MEMORY), memory),
        "linear": linear,
        "bahdanau": _Mechanism(length, keys, additive),
        "luong": _Mechanism(length, keys, length * units),
        "luong_dot": _Mechanism(length, none, length * units),
        "location": _Mechanism(length, none, length * units),
        "feed_forward": _Mechanism(np.ones_like(length), 2 * length * width, none),
        "local_m": _Mechanism(length, keys, length * units),
        "local_p": _Mechanism(length, keys, length * units + units * units),
        "monotonic": _Mechanism(length, keys, additive),
        "mocha": _Mechanism(length, 2 * keys, 2 * additive),
        "matcha": _Mechanism(length, 2 * keys, 2 * additive),
    }


def multiply_adds_per_second(rows: int, inner: int, columns: int) -> float:
    """Measures the best rate of [rows, inner] @ [inner, columns] in float32.

    Batches of 20 products are timed for a second; the fastest batch counts.
    """
    lefts, right = tf.random.normal([20, rows, inner]), tf.random.normal([inner, columns])
    products = tf.function(
        lambda: tf.add_n([tf.reduce_max(tf.matmul(left, right)) for left in tf.unstack(lefts)]), autograph=False
    )
    products()
    best, end = float("inf"), time.perf_counter() + 1.0
    while time.perf_counter() < end:
        start = time.perf_counter()
        products().numpy()
        best = min(best, time.perf_counter() - start)
    return 20 * rows * inner * columns / best
