"""Inputs for tests of equations, scoring functions and GRUs in NumPy, and a mechanism's outputs for these inputs."""

import numpy as np
import tensorflow as tf

B, S, D, Q, U = 3, 7, 6, 4, 5
LENGTHS = np.array([7, 4, 1])
STATES = np.random.default_rng(0).normal(size=(B, S, D)).astype(np.float32)
QUERIES = np.random.default_rng(1).normal(size=(B, Q, U)).astype(np.float32)


def mask():
    """Mask [B, S] of the source positions that are not padding."""
    return np.arange(S)[None] < LENGTHS[:, None]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


SCORING = {"softmax": softmax, "sigmoid": sigmoid}


def array(weight):
    return tf.convert_to_tensor(weight).numpy().astype(np.float64)


def gru_step(x, h, cell):
    """The next state of a GRU for an input [E] and a state [U].

    As in Keras, gates are in the order z, r, candidate, and z keeps the state.
    """
    kernel, recurrent, bias = (array(weight) for weight in (cell.kernel, cell.recurrent_kernel, cell.bias))
    units = recurrent.shape[0]
    z, r, candidate = np.split(x @ kernel + bias, 3)
    z, r = sigmoid(z + h @ recurrent[:, :units]), sigmoid(r + h @ recurrent[:, units : 2 * units])
    return z * h + (1 - z) * np.tanh(candidate + (r * h) @ recurrent[:, 2 * units :])


def gru(inputs, cell):
    """All states of a GRU over inputs [T, E], from a state of zeros."""
    h, states = np.zeros(cell.recurrent_kernel.shape[0]), []
    for x in inputs:
        h = gru_step(x, h, cell)
        states.append(h)
    return np.array(states)


def read(mechanism, states, queries):
    """Returns a mechanism's scores [B, Q, M], contexts [B, Q, D] and alignments [B, Q, S]."""
    memory = mechanism.memorize(tf.constant(states), tf.constant(mask()))
    state = mechanism.initial_state(memory, Q)
    scores, _ = mechanism.score(tf.constant(queries), memory, state)
    contexts = tf.matmul(scores, memory["values"])
    return scores.numpy(), contexts.numpy(), mechanism.alignments(memory, scores).numpy()
