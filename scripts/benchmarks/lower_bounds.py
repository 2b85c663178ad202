"""Computes lower bounds on multiply-adds and memory of decoding and training, from the algebra alone."""

import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from studies.mechanisms import MEMORY_VARIANT, NESTED_MEMORY

from memattn.config import Config, NeuralGPUConfig, Seq2SeqConfig
from memattn.errors import ConfigError
from memattn.models.neural_gpu.cells import CELLS
from memattn.models.neural_gpu.model import KINDS

# Cell -> (number of gates and candidate, numbers per unit that are kept for the gradients). Kept are the gates, the
# candidate and h; by an LSTM also c and tanh(c), by a GRU also the reset gate times the previous h.
_CELLS = {"lstm": (4, 7), "gru": (3, 5), "rnnsearch": (3, 5)}


class Update(NamedTuple):
    """Lower bounds on one training step, which sums the gradients of `accumulate` batches."""

    multiply_adds: float
    bytes: float


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


class _Token(NamedTuple):
    """Costs of a token in a forward pass: multiply-adds, and numbers that are kept for the gradients."""

    multiply_adds: float
    kept: float


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


def training(config: Config, *, vocabulary: int, source_length: float, target_length: float, parameters: int) -> Update:
    """Counts a training step on sentences of these mean lengths: the forward pass, and twice as much for the gradients.

    Padding is not counted. An unknown mechanism counts as dot-product attention. Memory holds the weights, their
    gradients and Adam's two moments, and the tensors that the gradients are computed from: inputs, gates and outputs of
    the cells, scores, contexts, logits; all in float32.
    """
    sentences: float = config.training.batch_size
    if config.training.batch_type == "tokens":
        sentences /= max(source_length, target_length)
    source, target = _COSTS[type(config.model)](config.model, vocabulary, source_length, target_length)
    multiply_adds = sentences * (source_length * source.multiply_adds + target_length * target.multiply_adds)
    kept = sentences * (source_length * source.kept + target_length * target.kept)
    return Update(3 * config.training.accumulate * float(multiply_adds), 4 * (4 * parameters + float(kept)))


def _seq2seq(
    model: Seq2SeqConfig, vocabulary: int, source_length: float, target_length: float
) -> tuple[_Token, _Token]:
    """Returns the costs of a token of the source, and of a token of the target.

    A vector of the source counts as an embedding, `embedding_size` wide.
    """
    del target_length
    attention = model.attention
    layers, units, embedding = model.layers, model.units, model.embedding_size
    width = 2 * model.units_of_encoder
    context = {"none": 0, "linear": attention.get("projection") or width}.get(attention["name"], width)
    fed = context if model.input_feeding else 0
    decoder_gates, decoder_kept = _CELLS[model.decoder]
    features, mixed = (units, units + context) if model.mix else (units + context, 0)
    if model.decoder == "rnnsearch":  # a maxout layer, which reads the embedding too
        features, mixed = units // 2, embedding + units + context
    encoder, share = _active_encoder(model, source_length) if model.encoder == "cgru" else _recurrent_encoder(model)
    kept_source = embedding + encoder.kept + share * attention.get("num_slots", 0)
    mechanisms = _mechanisms(attention, np.array(share * source_length), units, width)
    rows, per_source, per_step = map(float, mechanisms.get(attention["name"], mechanisms["luong_dot"]))
    decoder_cells = (embedding + fed + (2 * layers - 1) * units) * decoder_gates * units
    target = decoder_cells + mixed * units + features * vocabulary + per_step + rows * context
    kept_target = layers * decoder_kept * units + embedding + fed + context + units + 2 * rows + 2 * vocabulary
    if attention["name"] == "bahdanau":
        kept_target += rows * units
    return _Token(encoder.multiply_adds + per_source / source_length, kept_source), _Token(target, kept_target)


def _recurrent_encoder(model: Seq2SeqConfig) -> tuple[_Token, float]:
    """Returns the costs of a recurrent encoder for a token of the source, and its number of states for each."""
    gates, kept_by_cell = _CELLS[model.encoder]
    units = model.units_of_encoder
    multiply_adds, kept = 0.0, 0.0
    share, inputs = 1.0, model.embedding_size  # number of inputs of a layer for each token, and their width
    for _, factor in itertools.zip_longest(range(model.layers_of_encoder), model.encoder_reduce, fillvalue=1):
        multiply_adds += share * 2 * (inputs + units) * gates * units
        kept += share * 2 * kept_by_cell * units
        share, inputs = share / factor, factor * units
    return _Token(multiply_adds, kept), share


def _active_encoder(model: Seq2SeqConfig, source_length: float) -> tuple[_Token, float]:
    """Returns the costs of an encoder of active memory for a token of the source, and its number of states for each."""
    maps = 2 * model.units_of_encoder
    step = _active_step(model.encoder, source_length * model.layers_of_encoder, 1, maps)
    return _Token(model.embedding_size * maps + step.multiply_adds, maps + step.kept), 1.0


def _active_memory(
    model: NeuralGPUConfig, vocabulary: int, source_length: float, target_length: float
) -> tuple[_Token, _Token]:
    """Returns the costs of a token of the source, and of a token of the target.

    The n steps of `encode` count as costs of the source.
    """
    kind = KINDS[model.kind]
    positions = max(source_length, target_length)
    step = _active_step(model.cell, positions * model.layers, model.width, model.units)
    features = kind.num_features * model.units
    steps = positions / source_length
    source = _Token(steps * step.multiply_adds, model.units + steps * step.kept)
    target = _Token(
        features * vocabulary + kind.has_decoder_cells * step.multiply_adds,
        features + 2 * vocabulary + kind.has_decoder_cells * step.kept,
    )
    return source, target


def _active_step(cell: str, positions: float, width: int, maps: int) -> _Token:
    """Returns the costs of a step of active memory; `positions` is their number times that of the layers."""
    parts, cells = CELLS[cell].parts, positions * width
    kernel = 3 * (3 if width > 1 else 1) * maps**2
    return _Token(cells * parts * kernel, cells * maps * (2 * parts + 1 if parts > 1 else 1))


_COSTS: dict[type, Callable[..., tuple[_Token, _Token]]] = {Seq2SeqConfig: _seq2seq, NeuralGPUConfig: _active_memory}


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
