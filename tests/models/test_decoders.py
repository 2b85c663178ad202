"""Models of LSTMs and of GRUs, and RNNsearch (Bahdanau et al., 2015, appendix A), equal their equations in NumPy."""

import numpy as np
import pytest
from helpers.equations import additive_energies, array, dense, next_state, randomize, recurrent_layer, sigmoid, softmax
from helpers.models import make_model, padded

from memattn.data.vocabulary import BOS, EOS

SOURCES, TARGETS = [[4, 5, 6, 7, EOS], [9, 4, EOS]], [[9, 4, 8, EOS], [5, 5, 4, EOS]]


def encoded(model, source):
    """The states [S, D] of a source, and the final states of all layers, forward layers first."""
    tops, finals = [], []
    for stack, turn in ((model.encoder.forward, 1), (model.encoder.backward, -1)):
        outputs = array(model.source_embedding.embeddings)[source][::turn]
        for layer in stack:
            outputs, final = recurrent_layer(layer.cell, outputs)
            finals += final
        tops.append(outputs[::turn])
    return np.concatenate(tops, -1), np.concatenate(finals)


def read(attention, query, states):
    """The context [D] of a query [U], by Eqs. 1 and 2 for Bahdanau attention, by Eqs. 4 to 7 for a memory."""
    if hasattr(attention, "decoder_scores"):
        alpha, beta = softmax(dense(attention.encoder_scores, states)), softmax(dense(attention.decoder_scores, query))
        return beta @ alpha.T @ states
    return softmax(additive_energies(attention, query[None], states))[0] @ states


def assert_logits(model, expected_logits):
    """Logits equal those of `expected_logits(source, target)`; all weights are random, biases as well."""
    randomize(model.trainable_variables)
    logits = model(padded(SOURCES), padded(TARGETS))
    for row, pair in enumerate(zip(SOURCES, TARGETS, strict=True)):
        np.testing.assert_allclose(logits[row], expected_logits(*pair), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("cell", "name", "switches"),
    [
        ("lstm", "memory", {}),
        ("lstm", "memory", {"layers": 2, "input_feeding": False}),
        ("lstm", "bahdanau", {"layers": 2, "bridge": "dense"}),
        ("gru", "bahdanau", {"mix": False}),
    ],
)
def test_logits_equal_equations_1_to_7(cell, name, switches):
    model = make_model(name, {}, encoder=cell, decoder=cell, **switches)
    decoder = model.decoder

    def expected_logits(source, target):
        states, final = encoded(model, source)
        parts = np.zeros([decoder.layers * decoder.state_parts, decoder.units])  # h, or h and c, of each layer
        if "bridge" in switches:
            parts = dense(model.bridge.dense, final).reshape(parts.shape)
        cells = np.split(parts, decoder.layers)
        logits, context = [], np.zeros(states.shape[1])
        for token in [BOS, *target[:-1]]:
            h = array(model.target_embedding.embeddings)[token]
            if decoder.input_feeding:
                h = np.concatenate([h, context])
            for i, layer in enumerate(decoder.stack):
                cells[i] = next_state(layer.cell, h, cells[i])
                h = cells[i][0]
            context = read(model.attention, h, states)
            features = np.concatenate([h, context])
            if decoder.mix:
                features = np.tanh(dense(decoder.mixing_layer, features))
            logits.append(dense(model.output_layer, features))  # Eq. 3
        return logits

    assert_logits(model, expected_logits)


def test_logits_of_rnnsearch_equal_the_equations_of_the_appendix():
    model = make_model("bahdanau", {}, encoder="gru", decoder="rnnsearch")
    decoder, units = model.decoder, 8

    def expected_logits(source, target):
        states, _ = encoded(model, source)
        s = np.tanh(dense(model.bridge.dense, states[0, 4:]))  # of the backward encoder at the first token
        kernel, recurrent, read_out = map(array, (decoder.kernel, decoder.recurrent_kernel, decoder.read_out_kernel))
        logits = []
        for token in [BOS, *target[:-1]]:
            y, c = array(model.target_embedding.embeddings)[token], read(model.attention, s, states)
            summed = np.concatenate([y, c, s]) @ read_out + array(decoder.read_out_bias)
            logits.append(dense(model.output_layer, summed.reshape(-1, 2).max(-1)))
            z, r, candidate = np.split(np.concatenate([y, c]) @ kernel + array(decoder.bias), 3)
            z, r = sigmoid(z + s @ recurrent[:, :units]), sigmoid(r + s @ recurrent[:, units : 2 * units])
            s = (1 - z) * s + z * np.tanh(candidate + (r * s) @ recurrent[:, 2 * units :])
        return logits

    assert_logits(model, expected_logits)


def test_the_output_layer_of_rnnsearch_may_be_tied():
    model = make_model("memory", {}, encoder="gru", decoder="rnnsearch", tie_embeddings="all", embedding_size=4)
    assert model(padded(SOURCES), padded(TARGETS)).shape == (2, 4, 11)
