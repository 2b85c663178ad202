"""Changes graphs of ONNX for the page: slots as an output, and a loop of decoder steps that is timed."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from memattn.models.seq2seq import Seq2Seq
from memattn.onnx_export.export import encoder_graph, step_graph
from memattn.onnx_export.graph import IR_VERSION, OPSET

_LONGEST_TIMED = 2000  # tokens of a source
_LARGEST_SHAPE = 16  # numbers in a constant that says how a node works; larger ones are weights


def add_slots(encoder_path: str, step_path: str) -> None:
    """Adds the weights of the slots [B, Q, K] to the outputs of a decoder step, if the encoder's graph has slots."""
    if not _has_slots(onnx.load(encoder_path)):
        return
    model = onnx.load(step_path)
    product = _producer(model.graph, _producer(model.graph, "weights").input[0])  # scores @ alpha
    model.graph.node.append(helper.make_node("Identity", [product.input[0]], ["slots"]))
    model.graph.output.append(helper.make_tensor_value_info("slots", TensorProto.FLOAT, ["B", "Q", "K"]))
    onnx.save(model, step_path)


def write_timing_graphs(model: Seq2Seq, folder: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Writes graphs that are timed, at the sizes of a model: with its attention, and with Bahdanau attention.

    Returns the path in the folder and the options of the attention of each.
    """
    os.makedirs(os.path.join(folder, "timing"))
    config = {**model.get_config(), "max_source_length": _LONGEST_TIMED}
    results = []
    for attention in (config["attention"], {"name": "bahdanau"}):
        path = f"timing/{attention['name']}.onnx"
        timed = Seq2Seq.from_config({**config, "attention": attention})
        onnx.save(timing_graph(timed), os.path.join(folder, path))
        results.append((path, attention))
    return results


def timing_graph(model: Seq2Seq) -> onnx.ModelProto:
    """Returns a graph that runs decoder steps, each from the most probable tokens of the one before.

    Its inputs are `steps`, the number of steps, and those of a decoder step, without what only pictures need. Its
    output is `last_tokens` [B, Q]. All weights are equal, which changes no time and makes the file small.
    """
    encoder = encoder_graph(model)
    step = step_graph(model, encoder).graph
    outputs = {value.name: value for value in step.output}
    tokens, *others = step.input
    state = [value for value in others if f"next_{value.name}" in outputs]
    if "weights" in outputs:
        weights = _producer(step, "weights")
        if _has_slots(encoder):
            step.node.remove(_producer(step, weights.input[0]))  # scores @ alpha
        step.node.remove(weights)
    used = {name for node in step.node for name in node.input}
    outer = [value for value in others if value.name in used and value not in state]

    nodes = [
        *step.node,
        helper.make_node("Gather", ["next_tokens", "first"], ["best_tokens"], axis=2),
        helper.make_node("Identity", ["continue"], ["continue_next"]),
    ]
    condition = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("continue", "continue_next")]
    best = helper.make_tensor_value_info("best_tokens", TensorProto.INT32, ["B", "Q"])
    number = helper.make_tensor_value_info("number", TensorProto.INT64, [])
    next_state = [outputs[f"next_{value.name}"] for value in state]
    body = helper.make_graph(nodes, "step", [number, condition[0], tokens, *state], [condition[1], best, *next_state])

    first = {value.name: f"first_{value.name}" for value in [tokens, *state]}
    carried = [helper.make_value_info(first[value.name], value.type) for value in [tokens, *state]]
    last = ["last_tokens", *(f"last_{value.name}" for value in state)]
    loop = helper.make_node("Loop", ["steps", "", *first.values()], last, body=body)
    steps = helper.make_tensor_value_info("steps", TensorProto.INT64, [])
    constants = [numpy_helper.from_array(np.array(0, np.int64), "first")]
    fills = []
    for weight in step.initializer:
        if np.prod(weight.dims) <= _LARGEST_SHAPE:
            constants.append(weight)
            continue
        shape = numpy_helper.from_array(np.array(weight.dims, np.int64), f"{weight.name}/shape")
        value = numpy_helper.from_array(np.array([0.01], np.float32))
        constants.append(shape)
        fills.append(helper.make_node("ConstantOfShape", [shape.name], [weight.name], value=value))
    output = helper.make_value_info("last_tokens", best.type)
    graph = helper.make_graph([*fills, loop], "steps", [steps, *outer, *carried], [output], constants)
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(result)
    return result


def _has_slots(encoder: onnx.ModelProto) -> bool:
    return any(output.name == "alpha" for output in encoder.graph.output)


def _producer(graph: onnx.GraphProto, name: str) -> onnx.NodeProto:
    """Returns the node that computes a tensor."""
    return next(node for node in graph.node if name in node.output)
