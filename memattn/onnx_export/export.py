"""Exports a trained model as a folder for `memattn-onnx`: a graph that encodes sources, and one of a decoder step.

Axes: B sources, S source positions, M values in the memory, Q hypotheses of a source, C continuations of a hypothesis.
"""

import logging
import os
from collections.abc import Iterator
from typing import cast

import numpy as np
import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from memattn.data.vocabulary import PAD
from memattn.models.attentive_decoder import ContextKernels, precomputing_pays
from memattn.models.encoder import RECURRENT_LAYERS
from memattn.models.seq2seq import Seq2Seq
from memattn.onnx_export.attention import MECHANISMS, Mechanism, Source
from memattn.onnx_export.graph import Graph, Tensor, array, dense, gru_cell, ints, lstm_cell, run_rnn
from memattn.runs.trained import Trained
from memattn.serving import exporting
from memattn.serving.onnx_searcher import ENCODER, STEP


def export(trained: Trained, folder: str, *, int8: bool = False) -> None:
    """Writes a new folder for `memattn-onnx`, which appears when it is complete. Raises ConfigError, OSError.

    The graphs take sources of any length. With `int8`, weights are integers of 8 bits, and so the inputs of their
    products, which are rounded by the range of a whole batch: results depend slightly on its other sources.
    """
    with exporting.new_folder(trained, folder, problems=_problems(trained)) as unfinished:
        model = cast(Seq2Seq, trained.models[0])
        encoder = encoder_graph(model)
        for name, graph in {ENCODER: encoder, STEP: step_graph(model, encoder)}.items():
            (_quantize if int8 else onnx.save)(graph, os.path.join(unfinished, name))


def _quantize(graph: onnx.ModelProto, path: str) -> None:
    """Writes a graph with weights of 8 bits."""
    logging.disable(logging.WARNING)  # of advice that does not concern these graphs
    try:
        # Weights of 7 bits, so that 16-bit sums do not overflow on CPUs without VNNI instructions.
        quantize_dynamic(graph, path, weight_type=QuantType.QInt8, reduce_range=True)
    finally:
        logging.disable(logging.NOTSET)


def _problems(trained: Trained) -> Iterator[str]:
    """Yields why a model or its search is not exported to ONNX."""
    if len(trained.models) > 1:
        yield "--run_dir: an ensemble is not exported to ONNX; give one run folder"
    for key in ("coverage_penalty", "no_repeat_ngram_size"):
        if getattr(trained.config.decoding, key):
            yield f"decoding.{key}: is not exported to ONNX; --set decoding.{key}=0"
    model = trained.models[0]
    if not isinstance(model, Seq2Seq):
        yield f"model.kind: {trained.config.model.kind} is not exported to ONNX; only seq2seq is"
        return
    config, mechanism = model.config, model.config.attention["name"]
    if config.encoder not in RECURRENT_LAYERS or model.encoder.reduction > 1:
        yield "model.encoder: only lstm and gru without encoder_reduce are exported to ONNX"
    if config.decoder not in RECURRENT_LAYERS:
        yield "model.decoder: only lstm and gru are exported to ONNX"
    if mechanism not in MECHANISMS:
        yield f"model.attention.name: {mechanism} is not exported to ONNX; only {', '.join(MECHANISMS)} are"


def encoder_graph(model: Seq2Seq) -> onnx.ModelProto:
    """Returns the graph from source ids [B, S] to the memory and the initial state of the decoder.

    The memory is the tensors that a decoder step reads. The tensors of the state are [B, 1, ...]: all hypotheses of a
    source start from the same state.
    """
    graph = Graph("encoder")
    source, final_state = _encode(graph, model, graph.input("source", np.int32, ["B", "S"]))
    with graph.scope("attention"):
        memory = _mechanism(model).memorize(graph, model.attention, source)
        kernels, is_precomputed = _context_kernels(model)
        if is_precomputed:
            both = [kernel for kernel in kernels if kernel is not None]
            memory["values"] = memory["values"] @ graph.weight("kernels", np.concatenate(both, -1))
    for name, tensor in {**memory, **_initial_state(graph, model, source, final_state)}.items():
        graph.output(name, tensor)
    return graph.model()


def _encode(graph: Graph, model: Seq2Seq, ids: Tensor) -> tuple[Source, list[Tensor]]:
    """Returns the encoded sources, and the final state of all layers [B, U], forward layers first."""
    is_real = graph.node("Not", graph.node("Equal", ids, np.array(PAD, np.int32)))
    real = is_real.cast(np.float32).with_axis(2)
    lengths = real.sum(1)
    int_lengths = lengths.without_axes(1, 2).cast(np.int32)  # [B]
    embeddings = graph.weight("embeddings", model.source_embedding.embeddings)
    inputs = graph.node("Gather", embeddings, ids.transposed(1, 0))  # [S, B, E]
    tops, final_state = [], []
    with graph.scope("encoder"):
        for stack in (model.encoder.forward, model.encoder.backward):
            outputs = inputs
            for layer in stack:
                outputs, state = run_rnn(graph, layer, outputs, int_lengths)
                final_state += state
            tops.append(outputs)
        states = graph.node("Concat", *tops, axis=-1).transposed(1, 0, 2)
    positions = graph.node("CumSum", real, np.array(1)) - 1.0
    return Source(states, is_real, real, lengths, positions), final_state


def _initial_state(graph: Graph, model: Seq2Seq, source: Source, final_state: list[Tensor]) -> dict[str, Tensor]:
    """Returns the decoder's initial state: tensors [B, 1, width] by the names of `_state_widths`."""
    bridge, kind, names = model.bridge, model.config.kind_of_bridge, _state_widths(model)
    state = {name: source.lengths * np.zeros([1, 1, width]) for name, width in names.items()}
    with graph.scope("bridge"):
        if kind == "dense":
            outputs = dense(graph, bridge.dense, graph.node("Concat", *final_state, axis=-1)).with_axis(1)
            number = bridge.layers * bridge.parts
            parts = graph.nodes("Split", outputs, outputs=number, axis=-1, num_outputs=number)
            state |= dict(zip(names, parts, strict=False))  # "context" comes last
        elif kind == "backward":
            first_backward = final_state[len(final_state) // 2]
            hidden = graph.node("Tanh", dense(graph, bridge.dense, first_backward)).with_axis(1)
            state |= {name: hidden for name in names if name.startswith("hidden")}
    return state


def step_graph(model: Seq2Seq, encoder: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the graph of a decoder step for Q hypotheses of each source.

    Inputs are `tokens` [B, Q], the memory as the encoder's graph returns it, the state [B, Q, ...], and `continuations`
    [1], the number C. Outputs are the C most probable next tokens of each hypothesis and their log-probabilities, [B,
    Q, C], the weights of source positions [B, Q, S], and the next state, whose names start with `next_`.
    """
    graph, decoder, mix, widths = Graph("decoder step"), model.decoder, model.config.mix, _state_widths(model)
    tokens, number = graph.input("tokens", np.int32, ["B", "Q"]), graph.input("continuations", np.int64, [1])
    memory = {value.name: graph.input_like(value) for value in encoder.graph.output if value.name not in widths}
    state = {name: graph.input(name, np.float32, ["B", "Q", width]) for name, width in widths.items()}
    with graph.scope("embedding"):
        embeddings = graph.weight("embeddings", model.target_embedding.embeddings)
        inputs = graph.node("Gather", embeddings, tokens)
    outputs, next_state = _run_cells(graph, model, inputs, state)
    features = outputs
    if mix:
        with graph.scope("mix"):
            kernel, bias = decoder.mixing_layer.weights
            features = outputs @ graph.weight("kernel", array(kernel)[: decoder.units]) + graph.weight("bias", bias)
    if model.has_alignments:
        with graph.scope("attention"):
            scores = _mechanism(model).score(graph, model.attention, outputs, memory)
            context, output_part = _read(graph, model, scores @ memory["values"])
        if "context" in state:
            next_state["context"] = context
        features = features + output_part if mix else graph.node("Concat", features, output_part, axis=-1)
        graph.output("weights", scores @ memory["alpha"] if "alpha" in memory else scores)
    if mix:
        features = graph.node("Tanh", features)
    with graph.scope("output"):
        if model.tied_output:
            logits = _tied_logits(graph, model, features, embeddings)
        else:
            logits = dense(graph, model.output_layer, features)
        number = graph.node("Min", number, ints(model.vocabulary_size))
        log_probs = graph.node("LogSoftmax", logits, axis=-1)
        log_probs, tokens = graph.nodes("TopK", log_probs, number, outputs=2, axis=-1)
    graph.output("next_tokens", tokens.cast(np.int32), np.int32, ["B", "Q", "C"])
    graph.output("log_probs", log_probs, np.float32, ["B", "Q", "C"])
    for name, tensor in next_state.items():
        graph.output(f"next_{name}", tensor)
    return graph.model()


def _run_cells(
    graph: Graph, model: Seq2Seq, inputs: Tensor, state: dict[str, Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Runs the decoder's cells for embeddings [B, Q, E]; returns the output of the last and the next state."""
    next_state: dict[str, Tensor] = {}
    width = model.config.embedding_size
    for index, layer in enumerate(model.decoder.stack):
        cell, hidden = layer.cell, state[f"hidden_{index}"]
        with graph.scope(layer.name):
            gates = inputs @ graph.weight("kernel", array(cell.kernel)[:width]) + graph.weight("bias", cell.bias)
            if index == 0 and "context" in state:
                context, (kernels, is_precomputed) = state["context"], _context_kernels(model)
                gates = gates + (context if is_precomputed else context @ graph.weight("context_kernel", kernels.input))
            if model.config.decoder == "gru":
                inputs = gru_cell(graph, gates, hidden, cell.recurrent_kernel)
            else:
                gates = gates + hidden @ graph.weight("recurrent_kernel", cell.recurrent_kernel)
                inputs, next_state[f"cell_{index}"] = lstm_cell(graph, gates, state[f"cell_{index}"])
            next_state[f"hidden_{index}"], width = inputs, model.config.units
    return inputs, next_state


def _read(graph: Graph, model: Seq2Seq, context: Tensor) -> tuple[Tensor, Tensor]:
    """Returns what the next step gets of a context read from the memory [B, Q, ...], and what the output layer gets."""
    kernels, is_precomputed = _context_kernels(model)
    if is_precomputed and kernels.input is not None:
        widths = ints(*(kernel.shape[1] for kernel in kernels))
        context, output_part = graph.nodes("Split", context, widths, outputs=2, axis=-1)
        return context, output_part
    if is_precomputed or kernels.output is None:
        return context, context
    return context, context @ graph.weight("mix_kernel", kernels.output)


def _tied_logits(graph: Graph, model: Seq2Seq, features: Tensor, embeddings: Tensor) -> Tensor:
    """Returns logits [B, Q, V] of features [B, Q, E], by the embeddings [V, E] that also read tokens."""
    rows = graph.node("Reshape", features, ints(-1, model.config.embedding_size))
    logits = graph.node("Gemm", rows, embeddings, graph.weight("bias", model.output_bias), transB=1)
    shape = graph.node("Concat", graph.node("Shape", features, end=2), ints(-1), axis=0)
    return graph.node("Reshape", logits, shape)


def _mechanism(model: Seq2Seq) -> Mechanism:
    return MECHANISMS[model.config.attention["name"]]


def _state_widths(model: Seq2Seq) -> dict[str, int]:
    """Returns the width of each tensor of the decoder's state: of the cells, then of the context for the next step."""
    cells = ("hidden", "cell")[: model.decoder.state_parts]
    widths = {f"{name}_{i}": model.config.units for i in range(model.config.layers) for name in cells}
    kernels, is_precomputed = _context_kernels(model)
    if kernels.input is not None:
        widths["context"] = kernels.input.shape[1 if is_precomputed else 0]
    return widths


def _context_kernels(model: Seq2Seq) -> tuple[ContextKernels, bool]:
    """Returns the matrices that multiply a context, as arrays, and whether the memory's values are multiplied instead.

    That is done once per source, where `precomputing_pays`. Both matrices are None without attention.
    """
    if not model.has_alignments:
        return ContextKernels(None, None), False
    kernels = model.decoder.context_kernels().map(array)
    num_values = model.attention.num_slots or model.max_source_length
    return kernels, kernels.output is not None and precomputing_pays(num_values, model.decoder.context_size, kernels)
