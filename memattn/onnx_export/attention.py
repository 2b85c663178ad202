"""Attention mechanisms in ONNX: the memory of the encoder's graph, and the scores of the decoder's.

Shapes are those of `AttentionMechanism`. Each mechanism has two functions. One returns the memory, as `memorize` does,
and the other the scores [B, Q, M], as `score` does. A memory holds "values" [B, M, D] and, if these are not the states,
"alpha" [B, M, S]: the weights of source positions are `scores @ alpha`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from memattn.attention.memory import position_encodings
from memattn.attention.windowed_memory import LOWEST_WINDOW
from memattn.onnx_export.graph import Graph, Tensor, dense, ints

_PADDING_LOGIT = -1e30

Memory = dict[str, Tensor]


class Source(NamedTuple):
    """The encoded sources."""

    states: Tensor  # [B, S, D]
    is_real: Tensor  # bool [B, S], false for padding, which comes last
    real: Tensor  # the same as 0 and 1, [B, S, 1]
    lengths: Tensor  # [B, 1, 1]
    positions: Tensor  # 0, 1 and so on, [B, S, 1]


class Mechanism(NamedTuple):
    """The two functions of a mechanism."""

    memorize: Callable[[Graph, Any, Source], Memory]
    # query [B, Q, U] -> scores [B, Q, M]; None for a mechanism without contexts
    score: Callable[[Graph, Any, Tensor, Memory], Any]


def _bahdanau_memory(graph, layer, source):
    return {**_states(source), "keys": dense(graph, layer.key_layer, source.states)}


def _luong_memory(graph, layer, source):
    return {**_states(source), "keys": dense(graph, layer.key_layer, source.states) * layer.scale}


def _luong_dot_memory(graph, layer, source):
    return {**_states(source), "keys": source.states * layer.scale}


def _states(source):
    return {"values": source.states, "is_real": source.is_real.with_axis(1)}


def _bahdanau_scores(graph, layer, query, memory):
    return _masked_softmax(graph, _additive(graph, layer, query, memory), memory["is_real"], -1)


def _luong_scores(graph, layer, query, memory):
    return _masked_softmax(graph, query @ memory["keys"].transposed(0, 2, 1), memory["is_real"], -1)


def _memory(graph, layer, source):
    logits = dense(graph, layer.encoder_scores, source.states)  # [B, S, K]
    if layer.position_encoding:
        logits = logits * _source_encodings(graph, layer, source)  # Eq. 9
    return _slots(_scoring(graph, layer.encoder_scoring, logits) * source.real, source)  # Eq. 5


def _memory_scores(graph, layer, query, memory):
    return _scoring(graph, layer.decoder_scoring, dense(graph, layer.decoder_scores, query))  # Eq. 7


def _source_encodings(graph, layer, source):
    """Returns l_s of Eq. 9 [B, S, K]."""
    encodings = position_encodings(layer.num_slots, layer.max_source_length)
    positions = graph.node("Min", source.positions, float(len(encodings) - 1)).without_axes(2)
    rows = graph.node("Gather", graph.weight("encodings", encodings), positions.cast(np.int64))
    if layer.renormalize == "none":
        return rows
    rows = rows * source.real
    rows = rows / rows.sum(1)
    return rows * source.lengths if layer.renormalize == "mean" else rows


def _scoring(graph, name, logits):
    return graph.node("Softmax", logits, axis=-1) if name == "softmax" else graph.node("Sigmoid", logits)


def _windowed_memory(graph, layer, source):
    stretch = source.lengths / float(layer.num_slots)  # [B, 1, 1]
    middles = stretch * (np.arange(layer.num_slots) + 0.5)  # [B, 1, K]
    deviation = graph.node("Max", stretch, 1.0) / 4.0
    distances = (source.positions + 0.5 - middles) / deviation  # [B, S, K]
    windows = graph.node("Max", distances * distances * -0.5, LOWEST_WINDOW)
    logits = dense(graph, layer.encoder_scores, source.states) + windows
    return _with_keys(graph, layer, _slots(_softmax_over_time(graph, logits, source), source))


def _stretch_means(graph, layer, source):
    stretch = source.lengths / float(layer.num_slots)  # [B, 1, 1]
    ends = stretch * np.arange(1.0, layer.num_slots + 1)  # [B, 1, K]
    starts = graph.node("Max", source.positions, ends - stretch)
    overlaps = graph.node("Relu", graph.node("Min", source.positions + 1.0, ends) - starts)  # [B, S, K]
    return _with_keys(graph, layer, _slots(overlaps / stretch * source.real, source))


def _latents(graph, layer, source):
    latents = graph.weight("z", layer.z)  # [K, D]
    inputs = _normalized(graph, layer.state_norm, source.states)
    queries = dense(graph, layer.latent_query, _normalized(graph, layer.latent_norm, latents))
    logits = dense(graph, layer.latent_key, inputs) @ queries.transposed(1, 0) / layer.z.shape[-1] ** 0.5  # [B, S, K]
    alpha = _softmax_over_time(graph, logits, source).transposed(0, 2, 1)
    read = alpha @ dense(graph, layer.latent_value, inputs)
    slots = dense(graph, layer.latent_output, read) + latents
    hidden = graph.node("Gelu", dense(graph, layer.expand, _normalized(graph, layer.slot_norm, slots)))
    slots = slots + dense(graph, layer.contract, hidden)
    return _with_keys(graph, layer, {"values": slots, "alpha": alpha})


def _normalized(graph, layer, inputs):
    """Applies layer normalization."""
    with graph.scope(layer.name):
        scale, bias = graph.weight("scale", layer.gamma), graph.weight("bias", layer.beta)
        return graph.node("LayerNormalization", inputs, scale, bias, axis=-1, epsilon=layer.epsilon)


def _slot_scores(graph, layer, query, memory):
    if layer.read == "address":
        logits = dense(graph, layer.decoder_scores, query)
    else:
        logits = _additive(graph, layer, query, memory)
    return graph.node("Softmax", logits, axis=-1)


def _with_keys(graph, layer, memory):
    return memory if layer.read == "address" else {**memory, "keys": dense(graph, layer.key_layer, memory["values"])}


def _feed_forward_memory(graph, layer, source):
    logits = source.real * 0.0
    if layer.weighted:
        logits = graph.node("Tanh", dense(graph, layer.energy, source.states))  # [B, S, 1]
    return _slots(_softmax_over_time(graph, logits, source), source)


def _feed_forward_scores(graph, layer, query, memory):
    """Returns ones [B, Q, 1]."""
    shape = graph.node("Concat", graph.node("Shape", query, end=2), ints(1), axis=0)
    return graph.node("Expand", np.ones([1, 1, 1]), shape)


def _linear_memory(graph, layer, source):
    features = source.states
    if layer.projection_layer is not None:
        features = dense(graph, layer.projection_layer, features)
    if layer.gate_layer is not None:
        features = features * graph.node("Sigmoid", dense(graph, layer.gate_layer, features))
    features = features * source.real
    alpha = features / source.lengths if layer.normalize == "length" else features
    alpha = alpha.transposed(0, 2, 1)  # [B, F, S]
    return {"values": alpha @ features, "alpha": alpha}


def _linear_scores(graph, layer, query, memory):
    return dense(graph, layer.query_layer, query)


def _slots(alpha, source):
    """Returns the memory whose values are the slots C = alpha^T s, for alpha [B, S, K]."""
    alpha = alpha.transposed(0, 2, 1)
    return {"values": alpha @ source.states, "alpha": alpha}


def _additive(graph, layer, query, memory):
    """Returns v . tanh(q + k) [B, Q, M] for the projected query and the keys [B, M, U]."""
    sums = dense(graph, layer.query_layer, query).with_axis(2) + memory["keys"].with_axis(1)
    v = graph.weight("v", np.asarray(layer.v)[:, None])
    return (graph.node("Tanh", sums) @ v).without_axes(3)


def _softmax_over_time(graph, logits, source):
    """Returns the softmax of logits [B, S, K] over the positions, 0 for padding."""
    return _masked_softmax(graph, logits, source.is_real.with_axis(2), 1)


def _masked_softmax(graph, logits, is_real, axis):
    return graph.node("Softmax", graph.node("Where", is_real, logits, _PADDING_LOGIT), axis=axis)


MECHANISMS = {  # by their names in `memattn.attention.MECHANISMS`
    "none": Mechanism(lambda *_: {}, lambda *_: None),
    "bahdanau": Mechanism(_bahdanau_memory, _bahdanau_scores),
    "luong": Mechanism(_luong_memory, _luong_scores),
    "luong_dot": Mechanism(_luong_dot_memory, _luong_scores),
    "memory": Mechanism(_memory, _memory_scores),
    "windowed_memory": Mechanism(_windowed_memory, _slot_scores),
    "stretch_means": Mechanism(_stretch_means, _slot_scores),
    "latents": Mechanism(_latents, _slot_scores),
    "feed_forward": Mechanism(_feed_forward_memory, _feed_forward_scores),
    "linear": Mechanism(_linear_memory, _linear_scores),
}
