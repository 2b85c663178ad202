"""Builds graphs of ONNX: tensors with Python's operators, and the layers of a model from their weights."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
import tensorflow as tf
from onnx import helper, numpy_helper

OPSET, IR_VERSION = 20, 9  # of 2023: ONNX Runtime 1.17 and later
_LSTM_GATES = (0, 3, 1, 2)  # ONNX's order i, o, f, c in Keras' order i, f, c, o
_GRU_GATES = (0, 1, 2)  # z, r and the candidate, as in Keras


class Tensor:
    """A tensor in a graph, by its name there; operators and methods add nodes to the graph."""

    def __init__(self, graph: "Graph", name: str):
        self._graph, self.name = graph, name

    def __add__(self, other: "Operand") -> "Tensor":
        return self._graph.node("Add", self, other)

    def __sub__(self, other: "Operand") -> "Tensor":
        return self._graph.node("Sub", self, other)

    def __mul__(self, other: "Operand") -> "Tensor":
        return self._graph.node("Mul", self, other)

    def __truediv__(self, other: "Operand") -> "Tensor":
        return self._graph.node("Div", self, other)

    def __matmul__(self, other: "Operand") -> "Tensor":
        return self._graph.node("MatMul", self, other)

    def transposed(self, *axes: int) -> "Tensor":
        """Returns the tensor with its axes in another order."""
        return self._graph.node("Transpose", self, perm=axes)

    def with_axis(self, axis: int) -> "Tensor":
        """Returns the tensor with a new axis of size 1."""
        return self._graph.node("Unsqueeze", self, ints(axis))

    def without_axes(self, *axes: int) -> "Tensor":
        """Returns the tensor without axes of size 1."""
        return self._graph.node("Squeeze", self, ints(*axes))

    def sum(self, axis: int) -> "Tensor":
        """Returns the sum over an axis, which keeps the size 1."""
        return self._graph.node("ReduceSum", self, ints(axis))

    def cast(self, dtype: Any) -> "Tensor":
        """Returns the tensor as another type of NumPy."""
        return self._graph.node("Cast", self, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


Operand: TypeAlias = Tensor | np.ndarray | tf.Variable | float


class Graph:
    """A graph under construction."""

    def __init__(self, name: str):
        self._name, self._scopes = name, [""]
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, onnx.TensorProto] = {}

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Puts a name before the names of nodes and weights that are added in this context."""
        self._scopes.append(f"{self._scopes[-1]}{name}/")
        yield
        self._scopes.pop()

    def input(self, name: str, dtype: Any, shape: Sequence[str | int]) -> Tensor:
        """Adds an input; axes of the shape that have a name may be of any size."""
        return self.input_like(_value(name, dtype, shape))

    def input_like(self, value: onnx.ValueInfoProto) -> Tensor:
        """Adds an input with the name, type and shape of another graph's output."""
        self._inputs.append(value)
        return Tensor(self, value.name)

    def output(self, name: str, tensor: Tensor, dtype: Any = None, shape: Sequence[str | int] = ()) -> None:
        """Makes a tensor an output. Type and shape are inferred unless they are given."""
        self._nodes.append(helper.make_node("Identity", [tensor.name], [name], name=f"output/{name}"))
        self._outputs.append(_value(name, dtype, shape) if shape else onnx.ValueInfoProto(name=name))

    def weight(self, name: str, value: Any) -> Tensor:
        """Adds an array of weights, or a constant. The same name in the same scope is the same array."""
        name = self._scopes[-1] + name
        self._weights.setdefault(name, numpy_helper.from_array(array(value), name))
        return Tensor(self, name)

    def node(self, kind: str, *inputs: Operand, **attributes: Any) -> Tensor:
        """Adds a node with one output."""
        return self.nodes(kind, *inputs, outputs=1, **attributes)[0]

    def nodes(self, kind: str, *inputs: Operand, outputs: int, **attributes: Any) -> list[Tensor]:
        """Adds a node; returns its first outputs."""
        label = f"{kind}_{len(self._nodes)}"
        name = self._scopes[-1] + label
        names = [name] if outputs == 1 else [f"{name}:{i}" for i in range(outputs)]
        operands = [
            value if isinstance(value, Tensor) else self.weight(f"{label}/input_{i}", value)
            for i, value in enumerate(inputs)
        ]
        node = helper.make_node(kind, [operand.name for operand in operands], names, name=name, **attributes)
        self._nodes.append(node)
        return [Tensor(self, output) for output in names]

    def model(self) -> onnx.ModelProto:
        """Returns the model, checked, with types and shapes of all tensors."""
        graph = helper.make_graph(self._nodes, self._name, self._inputs, self._outputs, [*self._weights.values()])
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="memattn")
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        onnx.checker.check_model(model)
        return model


def _value(name: str, dtype: Any, shape: Sequence[str | int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def array(value: Any) -> np.ndarray:
    """Returns a weight or a constant as an array, float32 unless it holds integers."""
    value = np.asarray(value)
    return value.astype(np.float32) if value.dtype.kind == "f" else value


def ints(*values: int) -> np.ndarray:
    """Returns axes or sizes, as nodes take them."""
    return np.array(values, np.int64)


def dense(graph: Graph, layer: tf.keras.layers.Dense, inputs: Tensor) -> Tensor:
    """Applies a dense layer without its activation to inputs [..., D]."""
    with graph.scope(layer.name):
        outputs = inputs @ graph.weight("kernel", layer.kernel)
        return outputs + graph.weight("bias", layer.bias) if layer.use_bias else outputs


def run_rnn(
    graph: Graph, layer: tf.keras.layers.LSTM | tf.keras.layers.GRU, inputs: Tensor, lengths: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Runs a recurrent layer over inputs [S, B, D] of the given lengths [B].

    Returns the outputs [S, B, U], in the order of the inputs and 0 for padding, and the final state: h and c of an
    LSTM, h of a GRU, [B, U].
    """
    cell, is_lstm = layer.cell, isinstance(layer, tf.keras.layers.LSTM)
    order = _LSTM_GATES if is_lstm else _GRU_GATES

    def reordered(weight: Any) -> np.ndarray:
        gates = np.split(array(weight), len(order), -1)
        return np.concatenate([gates[gate] for gate in order], -1)

    with graph.scope(layer.name):
        bias = reordered(cell.bias)
        outputs, *state = graph.nodes(
            "LSTM" if is_lstm else "GRU",
            inputs,
            graph.weight("kernel", reordered(cell.kernel).T[None]),
            graph.weight("recurrent_kernel", reordered(cell.recurrent_kernel).T[None]),
            graph.weight("bias", np.concatenate([bias, np.zeros_like(bias)])[None]),
            lengths,
            outputs=3 if is_lstm else 2,
            hidden_size=layer.units,
            direction="reverse" if layer.go_backwards else "forward",
        )
        return outputs.without_axes(1), [part.without_axes(0) for part in state]  # these axes are for directions


def lstm_cell(graph: Graph, gates: Tensor, memory_cell: Tensor) -> list[Tensor]:
    """Returns the next h and c of an LSTM for gates [B, Q, 4U] in Keras' order i, f, c, o."""
    i, f, candidate, o = graph.nodes("Split", gates, outputs=4, axis=-1, num_outputs=4)
    i, f, o = (graph.node("Sigmoid", gate) for gate in (i, f, o))
    memory_cell = f * memory_cell + i * graph.node("Tanh", candidate)
    return [o * graph.node("Tanh", memory_cell), memory_cell]


def gru_cell(graph: Graph, gates: Tensor, hidden: Tensor, recurrent_kernel: Any) -> Tensor:
    """Returns the next h of a GRU, whose inputs contribute `gates` [B, Q, 3U] to z, r and candidate."""
    kernel = array(recurrent_kernel)
    units = len(kernel)
    gates, candidate = graph.nodes("Split", gates, ints(2 * units, units), outputs=2, axis=-1)
    gates = gates + hidden @ graph.weight("gate_kernel", kernel[:, : 2 * units])
    update, reset = graph.nodes("Split", graph.node("Sigmoid", gates), outputs=2, axis=-1, num_outputs=2)
    candidate = candidate + (reset * hidden) @ graph.weight("candidate_kernel", kernel[:, 2 * units :])
    candidate = graph.node("Tanh", candidate)
    return candidate + update * (hidden - candidate)
