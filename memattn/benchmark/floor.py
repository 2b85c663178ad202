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
    memories = {
        "none": np.zeros_like(source_lengths),
        "memory": np.full_like(source_lengths, attention.get("num_slots", 32)),
    }
    rows = memories.get(attention["name"], source_lengths)  # of one source's memory
    encoder = source_lengths * 2 * layers * (2 * units * 4 * units)
    step = units * 4 * units + (layers - 1) * 2 * units * 4 * units + units * units + units * vocabulary
    counted = {
        "none": 0 * rows,
        "memory": hypothesis_steps * units * rows + 2 * source_lengths * width * rows,
        "bahdanau": hypothesis_steps * (units * units + rows * units) + source_lengths * width * units,
    }
    if attention["name"] not in counted:
        raise ConfigError(f"model.attention.name: no lower bound for {attention['name']}; known: {', '.join(counted)}")
    scores = counted[attention["name"]]
    if not attention.get("cache_keys", True):
        scores += (steps - 1) * source_lengths * width * units
    read = (5 if input_feeding else 1) * units  # columns of the matrices that multiply a context
    folded = rows * width * read + hypothesis_steps * rows * read
    unfolded = hypothesis_steps * (rows * width + width * read * (rows > 0))
    return float(np.sum(encoder + hypothesis_steps * step + scores + np.minimum(folded, unfolded)))


class Update(NamedTuple):
    """Lower bounds of one update of the weights from `accumulate` batches."""

    multiply_adds: float
    bytes: float


def training(config: Config, *, vocabulary: int, source_length: float, target_length: float, parameters: int) -> Update:
    """For batches of sentences of these mean lengths: the forward pass, and twice that for the gradients.

    A mechanism other than none, memory and bahdanau counts as a memory with one row per source position, whose scores
    are a product with the query alone.

    Memory holds the weights, their gradients and Adam's two moments, and in float32 what the gradients are computed
    from: inputs, gates and outputs of the LSTMs, scores, contexts, logits. Padding is not counted.
    """
    model, attention = config.model, config.model.attention
    layers, units, embedding = model.layers, model.units, model.embedding_size
    encoder_units = model.encoder_units or units
    width = 2 * encoder_units
    rows = {"none": 0, "memory": attention.get("num_slots", 0)}.get(attention["name"], source_length)
    fed = width * model.input_feeding
    source_token = 2 * (embedding + (2 * layers - 1) * encoder_units) * 4 * encoder_units
    target_token = (embedding + fed + (2 * layers - 1) * units) * 4 * units
    target_token += (units + width) * units * model.mix + (units if model.mix else units + width) * vocabulary
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
