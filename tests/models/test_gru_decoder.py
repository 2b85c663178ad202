"""The decoder of GRUs equals its equations in NumPy."""

import numpy as np
import pytest
from helpers.equations import array, gru, gru_step, softmax
from helpers.models import make_model, padded

from memattn.data.vocabulary import BOS, EOS

SOURCE, TARGET = [4, 5, 6, 7, EOS], [9, 4, 8, EOS]


@pytest.mark.parametrize(
    "switches", [{"layers": 2}, {"layers": 1, "mix": False}, {"layers": 2, "input_feeding": False}, {"bridge": "dense"}]
)
def test_logits_equal_numpy(switches):
    model = make_model("bahdanau", {}, **{"encoder": "gru", "decoder": "gru", **switches})
    for weight in model.trainable_variables:  # biases as well
        weight.assign(np.random.default_rng(len(weight.shape)).normal(scale=0.5, size=weight.shape))
    outputs = [array(model.source_embedding.embeddings)[SOURCE]] * 2
    finals = []
    for side, stack in enumerate((model.encoder.forward, model.encoder.backward)):
        outputs[side] = outputs[side][:: -1 if side else 1]
        for layer in stack:
            outputs[side] = gru(outputs[side], layer.cell)
            finals.append(outputs[side][-1])
    states = np.concatenate([outputs[0], outputs[1][::-1]], -1)
    decoder, attention = model.decoder, model.attention
    cells = [np.zeros(decoder.units)] * decoder.layers
    if "bridge" in switches:
        cells = np.split(np.concatenate(finals) @ array(model.bridge.dense.kernel) + array(model.bridge.dense.bias), 1)
    keys, c, expected = states @ array(attention.key_layer.kernel), np.zeros(states.shape[1]), []
    for token in [BOS, *TARGET[:-1]]:
        x = array(model.target_embedding.embeddings)[token]
        if decoder.input_feeding:
            x = np.concatenate([x, c])
        for i, layer in enumerate(decoder.stack):
            x = cells[i] = gru_step(x, cells[i], layer.cell)
        query = x @ array(attention.query_layer.kernel) + array(attention.query_layer.bias)
        c = softmax(np.tanh(query + keys) @ array(attention.v)) @ states
        features = np.concatenate([x, c])
        if decoder.mix:
            features = np.tanh(features @ array(decoder.mixing_layer.kernel) + array(decoder.mixing_layer.bias))
        expected.append(features @ array(model.output_layer.kernel) + array(model.output_layer.bias))
    np.testing.assert_allclose(model(padded([SOURCE]), padded([TARGET]))[0], expected, rtol=1e-4, atol=1e-4)
