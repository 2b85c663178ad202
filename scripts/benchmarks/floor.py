"""Lower bounds of decoding and training: multiply-adds and memory, from the algebra alone."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from memattn.config import Config, ModelConfig
from memattn.errors import ConfigError
from memattn.models.neural_gpu.cells import CELLS
from memattn.models.neural_gpu.model import KINDS


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
    """Multiply-adds of decoding sources with `steps` steps each: two layers, E = U, D = 2U, a mixing layer.

    Padding is not counted. Contexts are folded if that takes less; token embeddings are folded. Raises ConfigError for
    a mechanism whose scores are not counted here.
    """
    width, hypothesis_steps = 2 * units, beam_size * steps
    encoder = source_lengths * 2 * 2 * (2 * units * 4 * units)
    step = units * 4 * units + 2 * units * 4 * units + units * units + units * vocabulary
    counted = _attention(attention, source_lengths, units, width)
    if attention["name"] not in counted:
        raise ConfigError(f"model.attention.name: no lower bound for {attention['name']}; known: {', '.join(counted)}")
    rows, of_source, of_step = counted[attention["name"]]
    scores = of_source + hypothesis_steps * of_step
    if not attention.get("cache_keys", True):
        scores += (steps - 1) * source_lengths * width * units
    read = (5 if input_feeding else 1) * units  # columns of the matrices that multiply a context
    context = attention.get("projection") or width  # of linear attention
    folded = rows * context * read + hypothesis_steps * rows * read
    unfolded = hypothesis_steps * (rows * context + context * read * (rows > 0))
    return float(np.sum(encoder + hypothesis_steps * step + scores + np.minimum(folded, unfolded)))


def _attention(
    attention: Mapping[str, Any], length: np.ndarray, units: int, width: int
) -> dict[str, tuple[np.ndarray, ...]]:
    """By mechanism: rows that a step reads for sources of these lengths; multiply-adds of scores by source and step.

    Monotonic mechanisms count as in training: all positions in each step.
    """
    slots = attention.get("num_slots", 32)
    short = length < slots  # then a step reads the states themselves
    keys, additive = length * width * units, units * units + length * units
    features, projected = attention.get("projection") or width, bool(attention.get("projection"))
    return {
        "none": (0 * length, 0 * length, 0 * length),
        "memory": (
            np.minimum(slots, length),
            length * width * slots * (2 - short),
            units * slots + short * slots * length,
        ),
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


# Multiply-adds of a forward pass, and numbers that it keeps: each for a token of the source and one of the target.
_OfTokens = tuple[tuple[float, float], tuple[float, float]]


class Update(NamedTuple):
    """Lower bounds of one update of the weights from `accumulate` batches."""

    multiply_adds: float
    bytes: float


def training(config: Config, *, vocabulary: int, source_length: float, target_length: float, parameters: int) -> Update:
    """For batches of sentences of these mean lengths: the forward pass, and twice that for the gradients.

    A mechanism that is not known here counts as dot-product attention.

    Memory holds the weights, their gradients and Adam's two moments, and in float32 what the gradients are computed
    from: inputs, gates and outputs of the cells, scores, contexts, logits. Padding is not counted.
    """
    sentences = config.training.batch_size
    if config.training.batch_type == "tokens":
        sentences /= max(source_length, target_length)
    tokens = np.array([sentences * source_length, sentences * target_length])
    of_kind = _of_seq2seq if config.model.kind == "seq2seq" else _of_active_memory
    products, kept = of_kind(config.model, vocabulary, source_length, target_length)
    forward = config.training.accumulate * float(tokens @ products)
    return Update(3 * forward, 4 * (4 * parameters + float(tokens @ kept)))


def _of_seq2seq(model: ModelConfig, vocabulary: int, source_length: float, target_length: float) -> _OfTokens:
    """For a token of the source, and for one of the target."""
    del target_length
    attention = model.attention
    layers, units, embedding = model.layers, model.units, model.embedding_size
    encoder_units = model.encoder_units or units
    width = 2 * encoder_units
    context = {"none": 0, "linear": attention.get("projection") or width}.get(attention["name"], width)
    fed = context * model.input_feeding
    gates = [4 if kind == "lstm" else 3 for kind in (model.encoder, model.decoder)]
    source_token = 2 * (embedding + (2 * layers - 1) * encoder_units) * gates[0] * encoder_units
    target_token = (embedding + fed + (2 * layers - 1) * units) * gates[1] * units
    features = units // 2 if model.decoder == "rnnsearch" else units if model.mix else units + context
    target_token += (units + context) * units * model.mix + features * vocabulary
    counted = _attention(attention, np.float64(source_length), units, width)
    rows, of_source, of_step = counted.get(attention["name"], counted["luong_dot"])
    source_token += of_source / source_length
    target_token += of_step + rows * context
    kept_source = 2 * layers * 7 * encoder_units + embedding + attention.get("num_slots", 0)
    kept_target = layers * 7 * units + embedding + fed + context + units + 2 * rows + 2 * vocabulary
    if attention["name"] == "bahdanau":
        kept_target += rows * units
    return (source_token, target_token), (kept_source, kept_target)


def _of_active_memory(model: ModelConfig, vocabulary: int, source_length: float, target_length: float) -> _OfTokens:
    """For a token of the source, and for one of the target; the encoder's n steps count as the source's."""
    kind, cell = KINDS[model.kind], CELLS[model.cell]
    positions = max(source_length, target_length)
    cells = positions * model.width * model.layers  # that change in a step
    kernel = 3 * (3 if model.width > 1 else 1) * model.units**2
    step = cells * cell.parts * kernel
    kept_step = cells * model.units * (2 * cell.parts + 1 if cell.parts > 1 else 1)
    features = kind.num_features * model.units
    target_token = features * vocabulary + kind.decoder_layers * step
    kept_target = features + 2 * vocabulary + kind.decoder_layers * kept_step
    steps = positions / source_length
    return (steps * step, target_token), (model.units + steps * kept_step, kept_target)


def multiply_adds_per_second(rows: int, inner: int, columns: int, seconds: float = 1.0) -> float:
    """The best measured rate of [rows, inner] @ [inner, columns] in float32.

    Batches of 20 products are timed for `seconds`; the fastest counts.
    """
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
