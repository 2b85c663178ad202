"""Lower bounds of decoding and training: multiply-adds and memory, from the algebra alone."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from memattn.config import Config
from memattn.errors import ConfigError


def decoding(
    attention: Mapping[str, Any],
    *,
    source_lengths: np.ndarray,
    steps: int,
    beam_size: int,
    units: int,
    vocabulary: int,
    input_feeding: bool = True,
    layers: int = 2,
) -> float:
    """Multiply-adds of decoding sources with `steps` steps each: E = U, D = 2U, a mixing layer.

    Padding is not counted. Contexts are folded if that takes less; token embeddings are folded. Raises ConfigError for
    a mechanism whose scores are not counted here.
    """
    width, hypothesis_steps = 2 * units, beam_size * steps
    encoder = source_lengths * 2 * layers * (2 * units * 4 * units)
    step = units * 4 * units + (layers - 1) * 2 * units * 4 * units + units * units + units * vocabulary
    rows, of_source, of_step = _attention(attention, source_lengths, units, width)
    scores = of_source + hypothesis_steps * of_step
    if not attention.get("cache_keys", True):
        scores += (steps - 1) * source_lengths * width * units
    read = (5 if input_feeding else 1) * units  # columns of the matrices that multiply a context
    context = attention.get("projection") or width  # of linear attention
    folded = rows * context * read + hypothesis_steps * rows * read
    unfolded = hypothesis_steps * (rows * context + context * read * (rows > 0))
    return float(np.sum(encoder + hypothesis_steps * step + scores + np.minimum(folded, unfolded)))


def _attention(attention: Mapping[str, Any], length: np.ndarray, units: int, width: int) -> tuple[np.ndarray, ...]:
    """Rows of the memories of sources of these lengths, and multiply-adds of their scores: per source, per step.

    Monotonic mechanisms count as in training: all positions in each step. Raises ConfigError.
    """
    name, slots = attention["name"], np.full_like(length, attention.get("num_slots", 32))
    keys, additive = length * width * units, units * units + length * units
    features, projected = attention.get("projection") or width, bool(attention.get("projection"))
    counted = {
        "none": (0 * length, 0 * length, 0 * length),
        "memory": (slots, 2 * length * width * slots, units * slots),
        "linear": (
            np.full_like(length, features),
            length * features * (features + width * projected),
            units * features,
        ),
        "bahdanau": (length, keys, additive),
        "luong": (length, keys, length * units),
        "luong_dot": (length, 0 * length, length * units),
        "location": (length, 0 * length, length * units),
        "feed_forward": (np.ones_like(length), 2 * length * width, 0 * length),
        "local_m": (length, keys, length * units),
        "local_p": (length, keys, length * units + units * units),
        "monotonic": (length, keys, additive),
        "mocha": (length, 2 * keys, 2 * additive),
        "matcha": (length, 2 * keys, 2 * additive),
    }
    if name not in counted:
        raise ConfigError(f"model.attention.name: no lower bound for {name}; known: {', '.join(counted)}")
    return counted[name]


class Update(NamedTuple):
    """Lower bounds of one update of the weights from `accumulate` batches."""

    multiply_adds: float
    bytes: float


def training(config: Config, *, vocabulary: int, source_length: float, target_length: float, parameters: int) -> Update:
    """For batches of sentences of these mean lengths: the forward pass, and twice that for the gradients.

    A mechanism other than none, memory, linear and bahdanau counts as a memory with one row per source position, whose
    scores are a product with the query alone.

    Memory holds the weights, their gradients and Adam's two moments, and in float32 what the gradients are computed
    from: inputs, gates and outputs of the LSTMs, scores, contexts, logits. Padding is not counted.
    """
    model, attention = config.model, config.model.attention
    layers, units, embedding = model.layers, model.units, model.embedding_size
    encoder_units = model.encoder_units or units
    width = 2 * encoder_units
    of_slots = {"none": 0, "memory": attention.get("num_slots", 0), "linear": attention.get("projection") or width}
    rows = of_slots.get(attention["name"], source_length)
    fed = width * model.input_feeding
    gates = [4 if kind == "lstm" else 3 for kind in (model.encoder, model.decoder)]
    source_token = 2 * (embedding + (2 * layers - 1) * encoder_units) * gates[0] * encoder_units
    target_token = (embedding + fed + (2 * layers - 1) * units) * gates[1] * units
    features = units // 2 if model.decoder == "rnnsearch" else units if model.mix else units + width
    target_token += (units + width) * units * model.mix + features * vocabulary
    target_token += rows * (units + width)
    source_token += 2 * width * attention.get("num_slots", 0)
    kept_source = 2 * layers * 7 * encoder_units + embedding + attention.get("num_slots", 0)
    kept_target = layers * 7 * units + embedding + fed + width + units + 2 * rows + 2 * vocabulary
    if attention["name"] == "bahdanau":
        target_token += units * units
        source_token += width * units
        kept_target += rows * units
    sentences = config.training.batch_size
    if config.training.batch_type == "tokens":
        sentences /= max(source_length, target_length)
    tokens = sentences * source_length, sentences * target_length
    forward = config.training.accumulate * (tokens[0] * source_token + tokens[1] * target_token)
    return Update(3 * forward, 4 * (4 * parameters + tokens[0] * kept_source + tokens[1] * kept_target))


def multiply_adds_per_second(rows: int, inner: int, columns: int, seconds: float = 1.0) -> float:
    """The machine's best rate for [rows, inner] @ [inner, columns] in float32, over many times 20 in a row."""
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
