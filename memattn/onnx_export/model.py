"""A sequence-to-sequence model in ONNX: a graph that encodes sources, and a graph of one decoder step.

Axes: B sources, S source positions, M values in the memory, Q hypotheses of a source, C continuations of a hypothesis.
"""

import numpy as np
import onnx
from onnx import TensorProto

from memattn.data.vocabulary import PAD
from memattn.models.bridge import BackwardBridge, DenseBridge
from memattn.models.gru_decoder import GRUDecoder
from memattn.models.reader import folding_pays
from memattn.models.seq2seq import Seq2Seq
from memattn.onnx_export.attention import MECHANISMS, Source
from memattn.onnx_export.graph import Graph, Tensor, array, dense, gru_cell, lstm_cell, run_rnn


def encoder_graph(model: Seq2Seq) -> onnx.ModelProto:
    """Returns the graph from source ids [B, S] to the memory and the initial state of the decoder.

    The memory is the tensors that a decoder step reads. The tensors of the state are [B, 1, ...]: all hypotheses of a
    source start from the same state.
    """
    graph = Graph("encoder")
    source, final_state = _encode(graph, model, graph.input("source", np.int32, ["B", "S"]))
    with graph.scope("attention"):
        memory = MECHANISMS[type(model.attention)].memorize(graph, model.attention, source)
        if _folds(model):
            kernels = [kernel for kernel in _context_kernels(model) if kernel is not None]
            memory["values"] = memory["values"] @ graph.weight("kernels", np.concatenate(kernels, -1))
    for name, tensor in {**memory, **_initial_state(graph, model, source, final_state)}.items():
        graph.output(name, tensor)
    return graph.model()


def step_graph(model: Seq2Seq, encoder: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the graph of a decoder step for Q hypotheses of each source.

    Inputs are `tokens` [B, Q], the memory as the encoder's graph returns it, the state [B, Q, ...], and `continuations`
    [1], the number C. Outputs are the C most probable next tokens of each hypothesis and their log-probabilities, [B,
    Q, C], the weights of source positions [B, Q, S], and the next state, whose names start with `next_`.
    """
    graph, decoder, widths = Graph("decoder step"), model.decoder, _state_widths(model)
    tokens, number = graph.input("tokens", np.int32, ["B", "Q"]), graph.input("continuations", np.int64, [1])
    memory = {value.name: graph.input_like(value) for value in encoder.graph.output if value.name not in widths}
    state = {name: graph.input(name, np.float32, ["B", "Q", width]) for name, width in widths.items()}
    with graph.scope("embedding"):
        embeddings = graph.weight("embeddings", model.target_embedding.embeddings)
        inputs = graph.node("Gather", embeddings, tokens)
    outputs, next_state = _run_cells(graph, model, inputs, state)
    features = outputs
    if decoder.mix:
        with graph.scope("mix"):
            kernel, bias = decoder.mixing_layer.weights
            features = outputs @ graph.weight("kernel", array(kernel)[: decoder.units]) + graph.weight("bias", bias)
    if model.has_alignments:
        with graph.scope("attention"):
            scores = MECHANISMS[type(model.attention)].score(graph, model.attention, outputs, memory)
            fed, context = _read(graph, model, scores @ memory["values"])
        if "fed" in state:
            next_state["fed"] = fed
        features = features + context if decoder.mix else graph.node("Concat", features, context, axis=-1)
        graph.output("weights", scores @ memory["shares"] if "shares" in memory else scores)
    if decoder.mix:
        features = graph.node("Tanh", features)
    with graph.scope("output"):
        if model.tied_output:
            logits = _tied_logits(graph, model, features, embeddings)
        else:
            logits = dense(graph, model.output_layer, features)
        number = graph.node("Min", number, np.array([model.vocabulary_size], np.int64))
        log_probs = graph.node("LogSoftmax", logits, axis=-1)
        log_probs, tokens = graph.nodes("TopK", log_probs, number, outputs=2, axis=-1)
        tokens = graph.node("Cast", tokens, to=TensorProto.INT32)
    graph.output("next_tokens", tokens, np.int32, ["B", "Q", "C"])
    graph.output("log_probs", log_probs, np.float32, ["B", "Q", "C"])
    for name, tensor in next_state.items():
        graph.output(f"next_{name}", tensor)
    return graph.model()


def _run_cells(
    graph: Graph, model: Seq2Seq, inputs: Tensor, state: dict[str, Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Runs the decoder's cells for embeddings [B, Q, E]; returns the output of the last and the next state."""
    next_state: dict[str, Tensor] = {}
    width = model.target_embedding.output_dim
    for index, layer in enumerate(model.decoder.stack):
        cell, hidden = layer.cell, state[f"hidden_{index}"]
        with graph.scope(layer.name):
            gates = inputs @ graph.weight("kernel", array(cell.kernel)[:width]) + graph.weight("bias", cell.bias)
            if index == 0 and "fed" in state:
                fed = state["fed"]
                feed_kernel, _ = _context_kernels(model)
                gates = gates + (fed if _folds(model) else fed @ graph.weight("feed_kernel", feed_kernel))
            if isinstance(model.decoder, GRUDecoder):
                inputs = gru_cell(graph, gates, hidden, cell.recurrent_kernel)
            else:
                gates = gates + hidden @ graph.weight("recurrent_kernel", cell.recurrent_kernel)
                inputs, next_state[f"cell_{index}"] = lstm_cell(graph, gates, state[f"cell_{index}"])
            next_state[f"hidden_{index}"], width = inputs, model.decoder.units
    return inputs, next_state


def _read(graph: Graph, model: Seq2Seq, context: Tensor) -> tuple[Tensor, Tensor]:
    """Returns what the next step gets of a context read from the memory [B, Q, ...], and what the output layer gets."""
    feed_kernel, mix_kernel = _context_kernels(model)
    if mix_kernel is None:
        return context, context
    if not _folds(model):
        return context, context @ graph.weight("mix_kernel", mix_kernel)
    if feed_kernel is None:
        return context, context
    sizes = np.array([feed_kernel.shape[1], mix_kernel.shape[1]], np.int64)
    fed, context = graph.nodes("Split", context, sizes, outputs=2, axis=-1)
    return fed, context


def _encode(graph: Graph, model: Seq2Seq, ids: Tensor) -> tuple[Source, list[Tensor]]:
    """Returns the encoded sources, and the final state of all layers [B, U], forward layers first."""
    is_real = graph.node("Not", graph.node("Equal", ids, np.array(PAD, np.int32)))
    axis = np.array([1], np.int64)
    lengths = graph.node("ReduceSum", graph.node("Cast", is_real, to=TensorProto.INT32), axis, keepdims=0)
    embeddings = graph.weight("embeddings", model.source_embedding.embeddings)
    inputs = graph.node("Gather", embeddings, ids.transposed(1, 0))  # [S, B, E]
    tops, final_state = [], []
    with graph.scope("encoder"):
        for stack in (model.encoder.forward, model.encoder.backward):
            outputs = inputs
            for layer in stack:
                outputs, state = run_rnn(graph, layer, outputs, lengths)
                final_state += state
            tops.append(outputs)
        states = graph.node("Concat", *tops, axis=-1).transposed(1, 0, 2)
    real = graph.node("Unsqueeze", graph.node("Cast", is_real, to=TensorProto.FLOAT), axis + 1)
    positions = graph.node("CumSum", real, np.array(1, np.int64)) - 1.0
    return Source(states, is_real, real, graph.node("ReduceSum", real, axis), positions), final_state


def _initial_state(graph: Graph, model: Seq2Seq, source: Source, final_state: list[Tensor]) -> dict[str, Tensor]:
    """Returns the decoder's initial state: tensors [B, 1, width] by the names of `_state_widths`."""
    bridge, names = model.bridge, _state_widths(model)
    state = {name: source.lengths * np.zeros([1, 1, width], np.float32) for name, width in names.items()}
    axis = np.array([1], np.int64)
    with graph.scope("bridge"):
        if isinstance(bridge, DenseBridge):
            outputs = dense(graph, bridge.dense, graph.node("Concat", *final_state, axis=-1))
            number = bridge.layers * bridge.parts
            parts = graph.nodes(
                "Split", graph.node("Unsqueeze", outputs, axis), outputs=number, axis=-1, num_outputs=number
            )
            state |= dict(zip(names, parts, strict=False))  # "fed" comes last
        elif isinstance(bridge, BackwardBridge):
            first_backward = final_state[len(final_state) // 2]
            hidden = graph.node("Tanh", dense(graph, bridge.dense, graph.node("Unsqueeze", first_backward, axis)))
            state |= dict.fromkeys((name for name in names if name.startswith("hidden")), hidden)
    return state


def _state_widths(model: Seq2Seq) -> dict[str, int]:
    """Returns the width of each tensor of the decoder's state: of the cells, then of the context for the next step."""
    cells = ("hidden", "cell")[: model.bridge.parts]
    widths = {f"{name}_{i}": model.decoder.units for i in range(model.decoder.layers) for name in cells}
    feed_kernel, _ = _context_kernels(model)
    if feed_kernel is not None:
        widths["fed"] = feed_kernel.shape[1 if _folds(model) else 0]
    return widths


def _tied_logits(graph: Graph, model: Seq2Seq, features: Tensor, embeddings: Tensor) -> Tensor:
    """Returns logits [B, Q, V] of features [B, Q, E], by the embeddings [V, E] that also read tokens."""
    rows = graph.node("Reshape", features, np.array([-1, model.target_embedding.output_dim], np.int64))
    logits = graph.node("Gemm", rows, embeddings, graph.weight("bias", model.output_bias), transB=1)
    shape = graph.node("Concat", graph.node("Shape", features, end=2), np.array([-1], np.int64), axis=0)
    return graph.node("Reshape", logits, shape)


def _context_kernels(model: Seq2Seq) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Returns the matrices that multiply a context: for the first cell's input [D, G], and for the mixing layer [D, F].

    One is None if there is no such input or layer; both are, without attention.
    """
    decoder, size = model.decoder, model.attention.context_size(2 * model.encoder.units)
    if not size:
        return None, None
    feed = array(decoder.stack[0].cell.kernel)[-size:] if decoder.input_feeding else None
    return feed, array(decoder.mixing_layer.kernel)[-size:] if decoder.mix else None


def _folds(model: Seq2Seq) -> bool:
    """Returns whether the memory's values are multiplied by the matrices once per source (see `FoldedReader`)."""
    feed, mix = _context_kernels(model)
    num_values = model.attention.num_slots or model.max_source_length
    return mix is not None and folding_pays(num_values, len(mix), feed, mix)
