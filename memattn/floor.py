"""The least time that beam search can take: the multiply-adds that its algebra needs, at the machine's own rate."""

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
    layers: int = 2,
) -> float:
    """Multiply-adds of decoding sources with `steps` steps each: E = U, D = 2U, input feeding, mixing layer.

    Padding is not counted; contexts are folded or not, whichever takes less; token embeddings are folded.
    """
    width, hypothesis_steps = 2 * units, beam_size * steps
    memories = {
        "none": np.zeros_like(source_lengths),
        "memory": np.full_like(source_lengths, attention.get("num_slots", 32)),
    }
    rows = memories.get(attention["name"], source_lengths)  # of a source's memory
    encoder = source_lengths * 2 * layers * (2 * units * 4 * units)
    step = units * 4 * units + (layers - 1) * 2 * units * 4 * units + units * units + units * vocabulary
    scores = {
        "none": 0 * rows,
        "memory": hypothesis_steps * units * rows + 2 * source_lengths * width * rows,
        "bahdanau": hypothesis_steps * (units * units + rows * units) + source_lengths * width * units,
    }[attention["name"]]
    if not attention.get("cache_keys", True):
        scores += (steps - 1) * source_lengths * width * units
    folded = rows * width * 5 * units + hypothesis_steps * rows * 5 * units
    unfolded = hypothesis_steps * (rows * width + width * 5 * units * (rows > 0))
    return float(np.sum(encoder + hypothesis_steps * step + scores + np.minimum(folded, unfolded)))


def multiply_adds_per_second(rows: int, inner: int, columns: int, seconds: float = 1.0) -> float:
    """What the machine reaches in float32 on [rows, inner] @ [inner, columns], the best of many times 20 in a row."""
    lefts, right = tf.random.normal([20, rows, inner]), tf.random.normal([inner, columns])
    products = tf.function(
        lambda: tf.add_n([tf.reduce_max(tf.matmul(left, right)) for left in tf.unstack(lefts)]), autograph=False
    )
    products()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        products().numpy()
        best = min(best, time.perf_counter() - start)
    return 20 * rows * inner * columns / best
