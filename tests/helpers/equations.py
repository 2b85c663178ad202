"""Computations in NumPy that share no code with the layers, inputs for them, and a mechanism's outputs for these."""

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


def dense(layer, x):
    """The output of a dense layer without an activation."""
    return x @ array(layer.kernel) + (0 if layer.bias is None else array(layer.bias))


def layer_norm(layer, x):
    scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + layer.epsilon)
    return scaled * array(layer.gamma) + array(layer.beta)


def additive_energies(mechanism, queries, vectors):
    """Energies [Q, M] of additive attention: v . tanh(W_q h + b + W_k s) for queries [Q, U] and vectors [M, D]."""
    hidden = np.tanh(dense(mechanism.query_layer, queries)[:, None] + dense(mechanism.key_layer, vectors))
    return hidden @ array(mechanism.v)


def next_state(cell, x, state):
    """The next state of an LSTM, h and c, or of a GRU, h alone, for an input [E].

    As in Keras, the gates are in the order i, f, candidate, o, or z, r, candidate, and z keeps the state.
    """
    recurrent, h = array(cell.recurrent_kernel), state[0]
    inputs, units = dense(cell, x), len(h)
    if len(state) == 2:
        i, f, candidate, o = np.split(inputs + h @ recurrent, 4)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(candidate)
        return sigmoid(o) * np.tanh(c), c
    z, r, candidate = np.split(inputs, 3)
    z, r = sigmoid(z + h @ recurrent[:, :units]), sigmoid(r + h @ recurrent[:, units : 2 * units])
    return (z * h + (1 - z) * np.tanh(candidate + (r * h) @ recurrent[:, 2 * units :]),)


def recurrent_layer(cell, inputs):
    """All outputs of a recurrent layer over inputs [T, E], and its final state, from a state of zeros."""
    units, width = cell.recurrent_kernel.shape
    state, outputs = (np.zeros(units),) * (2 if width == 4 * units else 1), []
    for x in inputs:
        state = next_state(cell, x, state)
        outputs.append(state[0])
    return np.array(outputs), state


def read(mechanism, states=STATES, queries=QUERIES):
    """Returns a mechanism's scores [B, Q, M], contexts [B, Q, D] and alignments [B, Q, S]."""
    memory = mechanism.memorize(tf.constant(states), tf.constant(mask()))
    state = mechanism.initial_state(memory, Q)
    scores, _ = mechanism.score(tf.constant(queries), memory, state)
    contexts = tf.matmul(scores, memory["values"])
    return scores.numpy(), contexts.numpy(), mechanism.alignments(memory, scores).numpy()


def randomize(weights, scale=0.5):
    """Sets weights to random numbers: none keeps an initial value such as 0."""
    random = np.random.default_rng(6)
    for weight in weights:
        weight.assign(scale * random.normal(size=weight.shape).astype(np.float32))
