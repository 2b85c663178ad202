"""RNNsearch, its bridge and its GRU encoder (Bahdanau et al., 2015, appendix A) equal NumPy."""

import numpy as np
import pytest
from helpers.equations import array, gru, sigmoid
from helpers.models import make_model, padded

from memattn.data.vocabulary import BOS, EOS

SOURCE, TARGET = [4, 5, 6, 7, EOS], [9, 4, 8, EOS]
SWITCHES = {"encoder": "gru", "decoder": "rnnsearch"}


def test_logits_equal_the_equations_of_the_appendix():
    model = make_model("bahdanau", {}, **SWITCHES)
    for weight in model.trainable_variables:  # biases as well
        weight.assign(np.random.default_rng(len(weight.shape)).normal(scale=0.5, size=weight.shape))
    embedded = array(model.source_embedding.embeddings)[SOURCE]
    forward = gru(embedded, model.encoder.forward[0].cell)
    backward = gru(embedded[::-1], model.encoder.backward[0].cell)[::-1]
    states = np.concatenate([forward, backward], -1)
    decoder, units = model.decoder, 8
    kernel, recurrent, bias = map(array, (decoder.kernel, decoder.recurrent_kernel, decoder.bias))
    read_out, read_out_bias = array(decoder.read_out_kernel), array(decoder.read_out_bias)
    attention = model.attention
    keys = states @ array(attention.key_layer.kernel)
    s = np.tanh(backward[0] @ array(model.bridge.dense.kernel) + array(model.bridge.dense.bias))
    expected = []
    for token in [BOS, *TARGET[:-1]]:
        y = array(model.target_embedding.embeddings)[token]
        query = s @ array(attention.query_layer.kernel) + array(attention.query_layer.bias)
        energies = np.tanh(query + keys) @ array(attention.v)
        weights = np.exp(energies) / np.exp(energies).sum()
        c = weights @ states
        summed = np.concatenate([y, c, s]) @ read_out + read_out_bias
        expected.append(
            summed.reshape(-1, 2).max(-1) @ array(model.output_layer.kernel) + array(model.output_layer.bias)
        )
        z, r, candidate = np.split(np.concatenate([y, c]) @ kernel + bias, 3)
        z, r = sigmoid(z + s @ recurrent[:, :units]), sigmoid(r + s @ recurrent[:, units : 2 * units])
        s = (1 - z) * s + z * np.tanh(candidate + (r * s) @ recurrent[:, 2 * units :])
    np.testing.assert_allclose(model(padded([SOURCE]), padded([TARGET]))[0], expected, rtol=1e-4, atol=1e-4)


def test_padding_does_not_change_the_first_state():
    model = make_model("bahdanau", {}, **SWITCHES)
    alone, beside = (model.encode(padded([SOURCE], width)).cells[0][0][0] for width in (0, 9))
    np.testing.assert_allclose(alone, beside, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("tie_embeddings", ["source_target", "all"])
def test_embeddings_may_be_tied(tie_embeddings):
    model = make_model("memory", {}, **SWITCHES, tie_embeddings=tie_embeddings, embedding_size=4)
    assert model(padded([SOURCE]), padded([TARGET])).shape == (1, 4, 11)
