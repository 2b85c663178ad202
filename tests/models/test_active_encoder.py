"""The encoder of active memory equals a computation in NumPy; options that it lacks are refused."""

import numpy as np
import tensorflow as tf
from helpers.models import make_model
from helpers.neural_gpu import array, run

from memattn.data.vocabulary import EOS, PAD

SWITCHES = {"encoder": "cgru", "encoder_layers": 2, "bridge": "dense"}


def test_states_are_the_memory_after_as_many_steps_as_positions_and_the_final_state_their_mean():
    model, source = make_model("bahdanau", {}, **SWITCHES), [5, 4, 6, EOS]
    batch = tf.constant([source + [PAD, PAD], [4, EOS, PAD, PAD, PAD, PAD], [PAD] * 6])
    embedding, mask = model.source_embedding, model.source_embedding.mask(batch)
    dense, norm = model.encoder.input_layer, model.encoder.norm
    norm.gamma.assign(np.linspace(0.5, 1.5, norm.gamma.shape[0]))
    norm.beta.assign(np.linspace(-0.2, 0.2, norm.beta.shape[0]))
    states, final = model.encoder(embedding(batch), mask)
    for row, ids in enumerate((source, [4, EOS], [])):
        inputs = array(embedding.embeddings)[ids] @ array(dense.kernel) + array(dense.bias)
        scaled = (inputs - inputs.mean(-1, keepdims=True)) / np.sqrt(inputs.var(-1, keepdims=True) + norm.epsilon)
        memory = (scaled * array(norm.gamma) + array(norm.beta))[:, None]
        for _ in ids:
            memory = run(model.encoder.cells, memory)
        np.testing.assert_allclose(states[row, : len(ids)], memory[:, 0], rtol=1e-4, atol=1e-5)
        assert not np.any(states[row, len(ids) :])
        np.testing.assert_allclose(final[row], memory[:, 0].sum(0) / max(len(ids), 1), rtol=1e-4, atol=1e-5)


def test_a_memory_keeps_most_of_a_token_at_its_position_at_first():
    model = make_model("bahdanau", {}, **SWITCHES)
    for cell in model.encoder.cells:
        np.testing.assert_allclose(cell.bias[: cell.maps], np.full(cell.maps, 2.0))  # the update gate's
    source = tf.constant([[5, 4, 6, 4, 5, 6, 4, 5, 6, 5, 4, 6, 4, EOS]])
    states = model.encode(source).memory["values"]
    assert np.sqrt(np.mean(np.square(states))) > 0.3  # was 0.01 without layer normalization and with a bias of 1


def test_dropout_changes_states_in_training_alone():
    model = make_model("bahdanau", {}, dropout=0.5, **SWITCHES)
    source = tf.constant([[5, 4, 6, EOS]])
    first, second = (model.encode(source, tf.constant([1, seed])).memory["values"] for seed in (1, 2))
    assert np.abs(first - second).max() > 1e-3
    plain = make_model("bahdanau", {}, **SWITCHES)
    np.testing.assert_array_equal(model.encode(source).memory["values"], plain.encode(source).memory["values"])
