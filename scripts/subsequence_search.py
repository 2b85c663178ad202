"""Trains embeddings for subsequence search (Raffel and Ellis, 2016) with several poolings, and searches with each.

python scripts/subsequence_search.py

A sequence and a distorted part of the sequence get embeddings that are near to each other. The sequences are synthetic:
held tones, and warped, cropped, noisy copies of them; the paper has music.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import tensorflow as tf
from absl import flags
from studies import standalone

from memattn import files
from memattn.attention import FeedForwardAttention
from memattn.layers import SlotMemory
from memattn.runs.result import conditions

TONES = 12
MARGIN = 1.0  # m of the loss
ALPHA = 1.0  # alpha of the loss, the weight of pairs that do not match
BATCH = 20  # pairs of a training step
WIDTH = 32  # size of an embedding
SEARCHED = 2_000  # sequences
STEPS = 3_000  # of training
SEEDS = (1, 2, 3)  # of weights and sequences
_LEARNING_RATE = 1e-3
_BINS = 20  # bins of the histograms of distances
_LENGTHS = (96, 160)  # steps of a whole sequence
_SPEEDS = (0.8, 1.25)  # steps of the whole sequence for each step of a copy
_LONGEST = 200  # upper bound on the steps of a sequence or copy


class StateMask(tf.keras.layers.Layer):
    """Computes a mask of states [B, T / 2]: False where sequences [B, T, 12] are padded with zeros."""

    def call(self, sequences):
        return tf.reduce_any(sequences != 0, -1)[:, : sequences.shape[1] // 2 * 2 : 2]


def _feed_forward(weighted: bool) -> Callable:
    attention = FeedForwardAttention(weighted=weighted)
    return lambda states, mask: tf.keras.layers.Flatten()(attention(states[:, :1], states, value_mask=mask))


def _slots(num_slots: int, writing: Literal["windows", "weights"]) -> Callable:
    """Returns a function that concatenates the slots of a memory."""
    memory = SlotMemory(num_slots, writing)
    return lambda states, mask: tf.keras.layers.Flatten()(memory(states, mask=mask))


# Name -> maker of a function that pools states [B, T, D] with a mask [B, T] to one vector [B, D'].
POOLINGS: dict[str, Callable[[], Callable]] = {
    "feed-forward attention": lambda: _feed_forward(weighted=True),
    "mean": lambda: _feed_forward(weighted=False),
    **{f"memory attention, K = {slots}": partial(_slots, slots, "weights") for slots in (1, 4, 8)},
    **{f"position windows, K = {slots}": partial(_slots, slots, "windows") for slots in (1, 4, 8)},
}


def pairs(rows: int, random: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Makes sequences [T, 12] of held tones, and a warped, cropped and noisy copy of each.

    A tone sounds for four to twelve steps together with its fifth, like a piano roll. The copy has another tempo,
    lacks 10% to 30% at its ends, and has noise added.
    """
    examples = []
    for length in random.integers(*_LENGTHS, rows):
        held = random.integers(4, 13, length)
        tones = np.repeat(random.integers(0, TONES, length), held)[:length]
        sequence = np.eye(TONES, dtype=np.float32)[tones] + 0.5 * np.eye(TONES, dtype=np.float32)[(tones + 7) % TONES]
        start, end = length * random.uniform(0.0, 0.15), length * random.uniform(0.85, 0.9)
        positions = np.arange(start, end, random.uniform(*_SPEEDS))
        copy = sequence[np.minimum(positions.astype(int), length - 1)]
        copy = copy * random.uniform(0.5, 1.5, [len(copy), 1]) + random.normal(0, 0.3, copy.shape)
        examples.append((sequence, copy.astype(np.float32)))
    return examples


def padded(sequences: Sequence[np.ndarray]) -> np.ndarray:
    """Pads sequences with zeros to [B, T, 12]."""
    rows = np.zeros([len(sequences), _LONGEST, TONES], np.float32)
    for row, sequence in zip(rows, sequences, strict=True):
        row[: len(sequence)] = sequence
    return rows


def make_encoder(pooling: str) -> tf.keras.Model:
    """Makes a model from sequences [B, T, 12] to embeddings [B, 32] between -1 and 1."""
    inputs = tf.keras.Input([_LONGEST, TONES])
    states = tf.keras.layers.Conv1D(32, 5, padding="same", activation="relu", kernel_initializer="he_normal")(inputs)
    states = tf.keras.layers.MaxPooling1D(2)(states)
    hidden = tf.keras.layers.Dense(128, "relu", kernel_initializer="he_normal")(
        POOLINGS[pooling]()(states, StateMask()(inputs))
    )
    return tf.keras.Model(inputs, tf.keras.layers.Dense(WIDTH, "tanh")(hidden))


def distances(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Returns Euclidean distances [B] of embeddings, with a finite gradient where embeddings are equal."""
    return tf.sqrt(tf.reduce_sum(tf.math.squared_difference(a, b), -1) + 1e-8)


def loss(matching: tf.Tensor, different: tf.Tensor) -> tf.Tensor:
    """Returns the mean of d^2 over matching pairs, plus alpha times the mean of max(0, m - d)^2 over different ones."""
    hinge = tf.maximum(0.0, MARGIN - different)
    return tf.reduce_mean(matching**2) + ALPHA * tf.reduce_mean(hinge**2)


def train(pooling: str, *, steps: int, seed: int) -> tuple[tf.keras.Model, ...]:
    """Trains an encoder of sequences and an encoder of their copies, on new pairs in each training step."""
    tf.keras.utils.set_random_seed(seed)
    encoders = make_encoder(pooling), make_encoder(pooling)
    weights = [weight for encoder in encoders for weight in encoder.trainable_variables]
    optimizer = tf.keras.optimizers.Adam(_LEARNING_RATE)
    optimizer.build(weights)

    @tf.function(autograph=False)
    def update(originals, copies, shift):
        with tf.GradientTape() as tape:
            a, b = encoders[0](originals), encoders[1](copies)
            value = loss(distances(a, b), distances(a, tf.roll(b, shift, 0)))
        optimizer.apply_gradients(zip(tape.gradient(value, weights), weights, strict=True))

    random = np.random.default_rng([seed, 0])
    for _ in range(steps):
        originals, copies = (tf.constant(padded(part)) for part in zip(*pairs(BATCH, random), strict=True))
        shift = tf.constant(int(random.integers(1, BATCH)))  # rows, for pairs that do not match
        update(originals, copies, shift)
    return encoders


def bhattacharyya(matching: np.ndarray, different: np.ndarray) -> float:
    """Returns the overlap of two sets of distances, from 0 (none) to 1, by histograms with common bins."""
    edges = np.linspace(0, max(matching.max(), different.max()), _BINS + 1)
    a, b = (np.histogram(distances, edges)[0] / len(distances) for distances in (matching, different))
    return float(np.sum(np.sqrt(a * b)))


def search(database: np.ndarray, queries: np.ndarray, random: np.random.Generator) -> dict[str, Any]:
    """Searches a database [N, D] for the row of each query [N, D].

    Returns recall at ranks, the median rank, and the Bhattacharyya coefficient.
    """
    squares = [np.sum(vectors.astype(np.float64) ** 2, -1) for vectors in (queries, database)]
    products = queries.astype(np.float64) @ database.T
    apart = np.sqrt(np.maximum(squares[0][:, None] + squares[1] - 2 * products, 0))
    matching = np.diag(apart)
    ranks = (apart <= matching[:, None]).sum(1) - 1  # equal distances count against the query
    rows = np.arange(len(apart))
    different = apart[rows, (rows + random.integers(1, len(apart))) % len(apart)]
    return {
        **{f"recall at {rank}": f"{100 * np.mean(ranks < rank):.1f}%" for rank in (1, 10, 100)},
        "median rank": int(np.median(ranks)) + 1,
        "Bhattacharyya": f"{bhattacharyya(matching, different):.3f}",
    }


def statistics(sequences: Sequence[np.ndarray]) -> np.ndarray:
    """Embeds sequences without training, by mean and standard deviation of each tone: [N, 24]."""
    return np.stack([np.concatenate([sequence.mean(0), sequence.std(0)]) for sequence in sequences])


def evaluate(encoders: tuple[tf.keras.Model, ...] | None, *, rows: int, seed: int) -> dict[str, Any]:
    """Searches `rows` new sequences for their copies; embeds them by `statistics` if there are no encoders."""
    random = np.random.default_rng([seed, 1])
    database, queries = zip(*pairs(rows, random), strict=True)
    if encoders is None:
        return search(statistics(database), statistics(queries), random)
    database, queries = (
        encoder.predict(padded(part), verbose=0) for encoder, part in zip(encoders, (database, queries), strict=True)
    )
    return search(database, queries, random)


def main() -> None:
    output = flags.FLAGS.output
    files.make_folder(os.path.dirname(output))
    rows = []
    for name in ("mean and deviation, untrained", *POOLINGS):
        for seed in SEEDS:
            start = time.monotonic()
            encoders = train(name, steps=STEPS, seed=seed) if name in POOLINGS else None
            result = evaluate(encoders, rows=SEARCHED, seed=seed)
            rows.append({"pooling": name, "seed": seed, **result, "training steps": STEPS if encoders else 0})
            print(f"{name}, seed {seed}: {result}, {time.monotonic() - start:.0f} s", flush=True)
            standalone.write_table(output, rows, {"rows": rows, **conditions()})


if __name__ == "__main__":
    flags.DEFINE_string("output", "runs/results/subsequence/table", "Files of the table, without their ending.")
    cli.run(main)
