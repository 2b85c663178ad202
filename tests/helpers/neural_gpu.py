"""Small Neural GPUs, a source with its target, and the cells' equations in NumPy."""

import itertools

import numpy as np
import tensorflow as tf

from helpers.equations import array, sigmoid
from memattn.data.vocabulary import EOS
from memattn.models.active_memory import CELLS
from memattn.models.neural_gpu import KINDS

V, M = 9, 6
SOURCE, TARGET = [4, 5, 6, EOS], [7, 4, 8, 5, EOS]


def make_model(kind, cell="cgru", width=4, **changes):
    """A Neural GPU with random weights and biases; each call gives the same."""
    tf.keras.utils.set_random_seed(3)
    config = {"layers": 2, "units": M, "width": width, "cell": cell, "dropout": 0.0, **changes}
    model = KINDS[kind].from_config({"vocabulary_size": V, "max_source_length": 6, **config})
    random = np.random.default_rng(8)
    for weight in model.trainable_variables:
        weight.assign(np.array(weight) * 0.5 + random.normal(scale=0.1, size=weight.shape))
    return model


def convolved(kernel, s):
    """U * s of section 2 of the paper, element by element: s [n, w, m], kernel U [3, k, m, m']."""
    n, w, _ = s.shape
    output = np.zeros([n, w, kernel.shape[3]])
    for x, y, u, v in itertools.product(range(n), range(w), range(3), range(kernel.shape[1])):
        row, column = x + u - 1, y + v - kernel.shape[1] // 2
        if 0 <= row < n and 0 <= column < w:
            output[x, y] += s[row, column] @ kernel[u, v]
    return output


def _next_memory(cell, s, p=None):
    """The next memory [n, w, m] of a source without padding, from a cell's weights, memory s and output tape p."""
    kernel = array(cell.kernel)
    tape = array(cell.bias) + (0 if p is None else convolved(array(cell.tape_kernel), p))
    m = s.shape[2]
    tape = np.broadcast_to(tape, [*s.shape[:2], 3 * m])
    gates = convolved(array(cell.gates_kernel), s) + tape[..., : 2 * m]
    tape_of_candidate = tape[..., 2 * m :]
    if type(cell) is CELLS["cgru"]:
        u, r = np.split(np.clip(1.2 * sigmoid(gates) - 0.1, 0, 1), 2, -1)
        return u * s + (1 - u) * np.tanh(convolved(kernel, r * s) + tape_of_candidate)
    u, r = np.split(np.clip(gates / 2 + 0.5, 0, 1), 2, -1)
    moved, third = s.copy(), m // 3
    moved[:, :, :third] = np.concatenate([np.zeros_like(s[:1, :, :third]), s[:-1, :, :third]])
    moved[:, :, third : 2 * third] = np.concatenate([s[1:, :, third : 2 * third], np.zeros_like(s[:1, :, :third])])
    return u * moved + (1 - u) * np.clip(convolved(kernel, r * s) + tape_of_candidate, -1, 1)


def run(cells, s, p=None):
    """The memory [n, w, m] after each of the cells in turn, from memory s and output tape p."""
    for cell in cells:
        s = _next_memory(cell, s, p)
    return s
