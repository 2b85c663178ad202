"""Embeds sequences so that a distorted part of one lies near it (Raffel & Ellis, 2016), with a pooling to choose."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from memattn.attention import FeedForwardAttention, MemoryAttention

TONES = 12
MARGIN, OTHERS = 1.0, 1.0  # m and alpha of the loss
BATCH, WIDTH = 20, 32  # pairs of an update; the size of an embedding
_LEARNING_RATE = 1e-3
_BINS = 20  # of the distances' histograms
_LENGTHS, _SPEEDS = (96, 160), (0.8, 1.25)  # steps of a whole sequence; steps of it to one of a copy
_LONGEST = 200  # steps, of a whole sequence and of a slowed copy


@tf.keras.utils.register_keras_serializable("memattn")
class Slots(tf.keras.layers.Layer):
    """The slots of memory attention, one after the other: states [B, T, D] with a mask [B, T] to [B, K D]."""

    def __init__(self, num_slots: int, windows: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.num_slots, self.windows = num_slots, windows
        self.attention = MemoryAttention(
            num_slots=num_slots, encoder_scoring="softmax_time", position_windows=windows, dtype=self.dtype_policy
        )
        self.attention.decoder_scores.trainable = False  # nothing reads by them

    def build(self, states_shape, real_shape=None):
        self.attention.build((None, None, states_shape[-1]), (None, None, states_shape[-1]))
        self.built = True

    def call(self, states, real):
        memory = self.attention.memorize(states, real)
        return tf.reshape(memory["values"], [-1, self.num_slots * states.shape[-1]])

    def compute_output_shape(self, states_shape, real_shape=None):
        return states_shape[0], self.num_slots * states_shape[-1]

    def get_config(self):
        return {**super().get_config(), "num_slots": self.num_slots, "windows": self.windows}


@tf.keras.utils.register_keras_serializable("memattn")
class RealStates(tf.keras.layers.Layer):
    """Which of the states [B, T / 2] come from real steps of sequences [B, T, 12], not from zeros after their end."""

    def call(self, sequences):
        return tf.reduce_any(sequences != 0, -1)[:, : sequences.shape[1] // 2 * 2 : 2]


def _feed_forward(weighted: bool) -> Callable:
    attention = FeedForwardAttention(weighted=weighted)
    return lambda states, real: tf.keras.layers.Flatten()(attention(states[:, :1], states, value_mask=real))


# Each makes a function of states [B, T, D] and their mask [B, T] to one vector [B, D'].
POOLINGS: dict[str, Callable[[], Callable]] = {
    "feed-forward attention": lambda: _feed_forward(weighted=True),
    "mean": lambda: _feed_forward(weighted=False),
    **{f"memory attention, K = {slots}": lambda slots=slots: Slots(slots) for slots in (1, 4, 8)},
    **{f"position windows, K = {slots}": lambda slots=slots: Slots(slots, windows=True) for slots in (1, 4, 8)},
}


def pairs(rows: int, random: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sequences [T, 12] of held tones, and a warped, cropped and noisy copy of each.

    A tone sounds for four to twelve steps with its fifth, like a piano roll. The copy has another tempo, ten to thirty
    in a hundred of it are missing at its ends, and noise is added.
    """
    found = []
    for length in random.integers(*_LENGTHS, rows):
        held = random.integers(4, 13, length)
        tones = np.repeat(random.integers(0, TONES, length), held)[:length]
        whole = np.eye(TONES, dtype=np.float32)[tones] + 0.5 * np.eye(TONES, dtype=np.float32)[(tones + 7) % TONES]
        start, end = length * random.uniform(0.0, 0.15), length * random.uniform(0.85, 0.9)
        places = np.arange(start, end, random.uniform(*_SPEEDS))
        copy = whole[np.minimum(places.astype(int), length - 1)]
        copy = copy * random.uniform(0.5, 1.5, [len(copy), 1]) + random.normal(0, 0.3, copy.shape)
        found.append((whole, copy.astype(np.float32)))
    return found


def padded(sequences: list[np.ndarray]) -> np.ndarray:
    """[B, T, 12], with zeros after the end of each."""
    rows = np.zeros([len(sequences), _LONGEST, TONES], np.float32)
    for row, own in enumerate(sequences):
        rows[row, : len(own)] = own
    return rows


def make_encoder(pooling: str) -> tf.keras.Model:
    """Sequences [B, T, 12] to embeddings [B, 32] between -1 and 1."""
    inputs = tf.keras.Input([_LONGEST, TONES])
    states = tf.keras.layers.Conv1D(32, 5, padding="same", activation="relu", kernel_initializer="he_normal")(inputs)
    states = tf.keras.layers.MaxPooling1D(2)(states)
    hidden = tf.keras.layers.Dense(128, "relu", kernel_initializer="he_normal")(
        POOLINGS[pooling]()(states, RealStates()(inputs))
    )
    return tf.keras.Model(inputs, tf.keras.layers.Dense(WIDTH, "tanh")(hidden))


def distances(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Euclidean distances [B] of embeddings, with a gradient where they are equal."""
    return tf.sqrt(tf.reduce_sum(tf.math.squared_difference(one, other), -1) + 1e-8)


def loss(matching: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """The mean of d^2 over matching pairs, plus alpha times that of max(0, m - d)^2 over the others."""
    hinge = tf.maximum(0.0, MARGIN - other)
    return tf.reduce_mean(matching**2) + OTHERS * tf.reduce_mean(hinge**2)


def train(pooling: str, *, updates: int, seed: int) -> tuple[tf.keras.Model, ...]:
    """The encoders of whole and of distorted sequences, trained on new pairs in each update."""
    tf.keras.utils.set_random_seed(seed)
    encoders = make_encoder(pooling), make_encoder(pooling)
    weights = [weight for encoder in encoders for weight in encoder.trainable_variables]
    optimizer = tf.keras.optimizers.Adam(_LEARNING_RATE)
    optimizer.build(weights)

    @tf.function(autograph=False)
    def update(whole, copies, shift):
        with tf.GradientTape() as tape:
            one, other = encoders[0](whole), encoders[1](copies)
            value = loss(distances(one, other), distances(one, tf.roll(other, shift, 0)))
        optimizer.apply_gradients(zip(tape.gradient(value, weights), weights, strict=True))

    for whole, copies, shift in _batches(np.random.default_rng([seed, 0]), updates):
        update(whole, copies, shift)
    return encoders


def _batches(random: np.random.Generator, updates: int) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
    """Whole sequences, their copies, and by how many rows copies are moved for pairs that do not match."""
    for _ in range(updates):
        sides = zip(*pairs(BATCH, random), strict=True)
        whole, copies = (tf.constant(padded(list(side))) for side in sides)
        yield whole, copies, tf.constant(int(random.integers(1, BATCH)))


def bhattacharyya(matching: np.ndarray, other: np.ndarray) -> float:
    """The overlap of two sets of distances, from 0 for none to 1: of their histograms of 20 bins over both."""
    edges = np.linspace(0, max(matching.max(), other.max()), _BINS + 1)
    shares = [np.histogram(own, edges)[0] / len(own) for own in (matching, other)]
    return float(np.sum(np.sqrt(shares[0] * shares[1])))


def search(database: np.ndarray, queries: np.ndarray, random: np.random.Generator) -> dict[str, Any]:
    """How well the queries [N, D] find their own rows of a database [N, D]: recall at ranks, and the coefficient."""
    squares = [np.sum(side.astype(np.float64) ** 2, -1) for side in (queries, database)]
    products = queries.astype(np.float64) @ database.T
    apart = np.sqrt(np.maximum(squares[0][:, None] + squares[1] - 2 * products, 0))
    own = np.diag(apart)
    ranks = (apart <= own[:, None]).sum(1) - 1  # equal distances count against the query
    others = apart[np.arange(len(apart)), (np.arange(len(apart)) + random.integers(1, len(apart))) % len(apart)]
    return {
        **{f"recall at {rank}": f"{100 * np.mean(ranks < rank):.1f}%" for rank in (1, 10, 100)},
        "median rank": int(np.median(ranks)) + 1,
        "Bhattacharyya": f"{bhattacharyya(own, others):.3f}",
    }


def statistics(sequences: list[np.ndarray]) -> np.ndarray:
    """What needs no training: mean and standard deviation of each tone [N, 24]."""
    return np.stack([np.concatenate([own.mean(0), own.std(0)]) for own in sequences])


def evaluate(encoders: tuple[tf.keras.Model, ...] | None, *, rows: int, seed: int) -> dict[str, Any]:
    """`search` among so many new sequences for copies of them; without encoders, by `statistics`."""
    random = np.random.default_rng([seed, 1])
    sides = [list(side) for side in zip(*pairs(rows, random), strict=True)]
    if encoders is None:
        found = [statistics(side) for side in sides]
    else:
        found = [encoder.predict(padded(side), verbose=0) for encoder, side in zip(encoders, sides, strict=True)]
    return search(*found, random)
