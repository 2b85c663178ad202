"""Computes lower bounds on the multiply-adds of decoding from the algebra alone, and measures their rate."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf


def decoding(
    attention: Mapping[str, Any],
    *,
    source_lengths: np.ndarray,
    steps: int,
    beam_size: int,
    units: int,
    vocabulary: int,
    input_feeding: bool = True,
) -> float | None:
    """Counts multiply-adds of decoding sources with `steps` steps each: two layers, E = U, D = 2U, a mixing layer.

    Padding is not counted. Token embeddings are folded, and contexts, too, if that takes fewer multiply-adds. Returns
    None for a mechanism whose scores are not counted here.
    """
    scores = _scores(attention, source_lengths, steps, beam_size * steps, units)
    if scores is None:
        return None
    states, for_scores = scores
    width, hypothesis_steps = 2 * units, beam_size * steps
    encoder = source_lengths * 2 * 2 * (2 * units * 4 * units)  # two layers in two directions
    step = units * 4 * units + 2 * units * 4 * units + units * units + units * vocabulary
    columns = (5 if input_feeding else 1) * units  # number of columns of the matrices that multiply a context
    folded = states * width * columns + hypothesis_steps * states * columns
    unfolded = hypothesis_steps * (states * width + np.where(states > 0, width * columns, 0))
    return float(np.sum(encoder + hypothesis_steps * step + for_scores + np.minimum(folded, unfolded)))


def _scores(
    attention: Mapping[str, Any], length: np.ndarray, steps: int, hypothesis_steps: int, units: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the vectors that a decoder step reads of each source, and the multiply-adds of all scores.

    Additive reading of slots is not counted.
    """
    width = 2 * units
    if attention["name"] == "none":
        return 0 * length, 0 * length
    if attention["name"] == "bahdanau":
        projections = 1 if attention.get("cache_keys", True) else steps
        return length, projections * length * width * units + hypothesis_steps * (units * units + length * units)
    if attention["name"] in ("memory", "windowed_memory"):
        slots = attention["num_slots"]
        # A source shorter than the memory: a step reads its states by beta alpha^T, and C is not computed.
        is_short = length < slots
        once = length * width * slots * np.where(is_short, 1, 2)
        per_step = units * slots + np.where(is_short, slots * length, 0)
        return np.minimum(slots, length), once + hypothesis_steps * per_step
    return None


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
