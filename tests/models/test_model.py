"""Encoder, bridge, decoder and model, with each option: compared with NumPy, or tested by properties."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.equations import sigmoid
from helpers.models import V, make_model, padded
from studies.mechanisms import NESTED_MEMORY

from memattn.data.vocabulary import BOS, EOS
from memattn.models.bridge import Bridge
from memattn.models.decoder import Decoder
from memattn.models.dropout import dropout
from memattn.models.encoder import Encoder
from memattn.models.seq2seq import Seq2Seq
from memattn.options import OptionError


def lstm(inputs, cell, h=None, c=None):
    """An LSTM over inputs [T, D] in NumPy, with the gates in the order i, f, c, o; all outputs and the final state."""
    kernel, recurrent, bias = (weight.numpy() for weight in (cell.kernel, cell.recurrent_kernel, cell.bias))
    units = recurrent.shape[0]
    h = np.zeros(units) if h is None else h
    c = np.zeros(units) if c is None else c
    outputs = []
    for x in inputs:
        i, f, g, o = np.split(x @ kernel + h @ recurrent + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs), h, c


def test_encoder_is_two_independent_stacks():
    tf.keras.utils.set_random_seed(0)
    encoder = Encoder(layers=2, units=3)
    inputs = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
    lengths = [5, 3]
    states, final = encoder(tf.constant(inputs), tf.sequence_mask(lengths, 5))
    assert states.shape == (2, 5, 6)
    assert final.shape == (2, 24)
    for b, length in enumerate(lengths):
        real, expected_final = inputs[b, :length], []
        tops = []
        for stack, turn in ((encoder.forward, 1), (encoder.backward, -1)):
            outputs = real[::turn]
            for layer in stack:
                outputs, h, c = lstm(outputs, layer.cell)
                expected_final += [h, c]
            tops.append(outputs[::turn])
        np.testing.assert_allclose(states[b, :length], np.concatenate(tops, -1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(final[b], np.concatenate(expected_final), rtol=1e-4, atol=1e-5)


def test_bridges_compute_the_first_states_of_the_decoder():
    final = np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
    zero = Bridge("zero", layers=2, units=3)(tf.constant(final))
    assert len(zero) == 2
    assert all(not part.numpy().any() and part.shape == (2, 3) for cell in zero for part in cell)
    bridge = Bridge("dense", layers=2, units=3)
    cells = bridge(tf.constant(final))
    expected = final @ bridge.dense.kernel.numpy() + bridge.dense.bias.numpy()
    np.testing.assert_allclose(np.concatenate([part for cell in cells for part in cell], -1), expected, rtol=1e-5)


@pytest.mark.parametrize("input_feeding", [True, False])
@pytest.mark.parametrize("mix", [True, False])
def test_decoder_computes_equations_3_6_and_7(input_feeding, mix):
    model = make_model("memory", {"num_slots": 3}, input_feeding=input_feeding, mix=mix, layers=2)
    source, target = [4, 7, EOS], [5, 6, 7, EOS]
    logits = model(padded([source]), padded([target])).numpy()[0]
    memory, cells = model.encode(padded([source]))
    rows = memory["values"].numpy()[0]
    w_beta = model.attention.decoder_scores.kernel.numpy()
    embeddings = model.target_embedding.embeddings.numpy()
    context = np.zeros(rows.shape[1])
    states = [tuple(part.numpy()[0] for part in cell) for cell in cells]
    for t, token in enumerate([BOS, *target[:-1]]):
        h = np.concatenate([embeddings[token], context]) if input_feeding else embeddings[token]
        for i, layer in enumerate(model.decoder.stack):
            _, h, c = lstm([h], layer.cell, *states[i])
            states[i] = (h, c)
        beta = np.exp(h @ w_beta) / np.exp(h @ w_beta).sum()  # Eq. 7, of this step's output
        context = beta @ rows  # Eq. 6
        features = np.concatenate([h, context])
        if mix:
            dense = model.decoder.mixing_layer
            features = np.tanh(features @ dense.kernel.numpy() + dense.bias.numpy())
        expected = features @ model.output_layer.kernel.numpy() + model.output_layer.bias.numpy()  # Eq. 3
        np.testing.assert_allclose(logits[t], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "name, bridge, expected",
    [
        ("memory", "auto", "zero"),
        ("bahdanau", "auto", "zero"),
        ("none", "auto", "dense"),
        ("memory", "dense", "dense"),
        ("bahdanau", "zero", "zero"),
    ],
)
def test_the_config_chooses_the_bridge(name, bridge, expected):
    assert make_model(name, {}, bridge=bridge).bridge.kind == expected


def test_tied_embeddings_share_their_matrices():
    separate, shared, tied = (make_model("memory", {}, tie_embeddings=tie) for tie in ("none", "source_target", "all"))
    assert separate.source_embedding is not separate.target_embedding
    assert shared.source_embedding is shared.target_embedding
    assert separate.count_params() - shared.count_params() == 11 * 8
    assert shared.count_params() - tied.count_params() == 11 * 8
    embeddings = tf.convert_to_tensor(tied.target_embedding.embeddings)
    features = tf.constant(np.random.default_rng(0).normal(size=(1, 2, 8)).astype(np.float32))
    np.testing.assert_allclose(
        tied._output().logits(features), tf.einsum("bte,ve->btv", features, embeddings), rtol=1e-4, atol=1e-5
    )


def test_initial_weights_are_uniform_within_the_scale_and_differ():
    model = make_model("bahdanau", {}, init_scale=0.04, bridge="dense")
    matrices = []
    for weight in model.trainable_variables:
        values = tf.convert_to_tensor(weight).numpy()
        if values.ndim == 2 or values.shape == (8,) and values.any():
            assert np.abs(values).max() <= 0.04
            assert values.std() > 0.01
            assert all(values.shape != earlier.shape or (values != earlier).any() for earlier in matrices)
            matrices.append(values)
        else:
            assert set(values) <= {0.0, 1.0}  # biases are 0, those of forget gates 1
    assert sum(tf.convert_to_tensor(lstm.cell.bias).numpy()[8:16].sum() for lstm in model.decoder.stack) == 8


def test_dropout_has_a_fresh_mask_each_step_and_keeps_the_mean():
    inputs = tf.ones([4, 50, 100])
    dropped = dropout(inputs, 0.2, tf.constant([1, 2])).numpy()
    np.testing.assert_array_equal(np.unique(dropped), np.float32([0, 1.25]))
    assert abs((dropped == 0).mean() - 0.2) < 0.01
    assert all((dropped[:, 0] != dropped[:, t]).any() for t in range(1, 50))
    np.testing.assert_array_equal(dropped, dropout(inputs, 0.2, tf.constant([1, 2])).numpy())
    assert (dropped != dropout(inputs, 0.2, tf.constant([1, 3])).numpy()).any()
    assert dropout(inputs, 0.2, None) is inputs


@pytest.mark.parametrize(
    ("decoder", "input_feeding"), [("lstm", True), ("lstm", False), ("gru", True), ("rnnsearch", True)]
)
def test_encoder_and_decoder_both_have_dropout(decoder, input_feeding):
    model = make_model("bahdanau", {}, dropout=0.5, decoder=decoder, input_feeding=input_feeding)
    source, target, seed = padded([[4, 5, EOS]]), padded([[5, 6, EOS]]), tf.constant([1, 2])
    plain = model(source, target).numpy()
    by_encoder = model.teacher_forced_logits(model.encode(source, seed), target)
    by_decoder = model.teacher_forced_logits(model.encode(source), target, seed)
    assert np.abs(by_encoder - plain).max() > 1e-3
    assert np.abs(by_decoder - plain).max() > 1e-3


@pytest.mark.parametrize("decoder", ["lstm", "gru", "rnnsearch"])
def test_contexts_have_dropout(decoder):
    """Embeddings are 0, so dropping them changes nothing."""
    model = make_model("bahdanau", {}, dropout=0.5, decoder=decoder)
    model.target_embedding.embeddings.assign(tf.zeros_like(model.target_embedding.embeddings))
    source, target = padded([[4, 5, EOS]]), padded([[5, 6, EOS]])
    dropped = model.teacher_forced_logits(model.encode(source), target, tf.constant([1, 2]))
    assert np.abs(dropped - model(source, target)).max() > 1e-3


@pytest.mark.parametrize("decoder", ["lstm", "gru", "rnnsearch"])
def test_target_embeddings_have_dropout(decoder):
    """Source states, and so contexts, are 0."""
    layer = make_model("bahdanau", {}, dropout=0.5, decoder=decoder).decoder
    memory = layer.attention.memorize(tf.zeros([1, 3, 8]), tf.ones([1, 3], tf.bool))
    state = [(tf.zeros([1, 8]),) * (2 if decoder == "lstm" else 1)]
    dropped, plain = (layer(tf.ones([1, 4, 8]), state, memory, seed)[0] for seed in (tf.constant([1, 2]), None))
    assert np.abs(dropped - plain).max() > 1e-3


@pytest.mark.parametrize("input_feeding", [True, False])
def test_the_upper_layers_of_the_decoder_have_dropout(input_feeding):
    """The first layer reads zeros; its bias gives it an output."""
    layer = make_model("bahdanau", {}, dropout=0.5, layers=2, input_feeding=input_feeding).decoder
    layer.stack[0].cell.bias.assign(tf.ones([32]))
    memory = layer.attention.memorize(tf.zeros([1, 3, 8]), tf.ones([1, 3], tf.bool))
    state = [(tf.zeros([1, 8]),) * 2] * 2
    dropped, plain = (layer(tf.zeros([1, 4, 8]), state, memory, seed)[0] for seed in (tf.constant([1, 2]), None))
    assert np.abs(dropped - plain).max() > 1e-3


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_upper_layers_of_the_encoder_have_dropout(cell):
    """The first layers read zeros; their biases give them an output."""
    encoder = Encoder(layers=2, units=4, cell=cell, dropout=0.5, initializer="ones")
    encoder.build((None, None, 3))
    for layer in (encoder.forward[0], encoder.backward[0]):
        layer.cell.bias.assign(tf.ones_like(layer.cell.bias))
    inputs, mask = tf.zeros([1, 4, 3]), tf.ones([1, 4], tf.bool)
    dropped, plain = (encoder(inputs, mask, seed)[0] for seed in (tf.constant([1, 2]), None))
    for half in (slice(4), slice(4, 8)):
        assert np.abs(dropped[..., half] - plain[..., half]).max() > 1e-3


def test_both_directions_of_the_encoder_draw_masks_of_their_own():
    """With equal weights and a single position, the two directions would otherwise be equal."""
    encoder = Encoder(layers=1, units=4, dropout=0.5, initializer="ones")
    states, _ = encoder(tf.random.normal([1, 1, 40], seed=1), tf.ones([1, 1], tf.bool), tf.constant([1, 2]))
    forward, backward = np.split(states, 2, axis=-1)
    assert np.abs(forward - backward).max() > 1e-3


def test_memorize_in_training_is_called_in_training_alone():
    model = make_model(NESTED_MEMORY, {"num_slots": 4})
    source = padded([[4, 5, 6, 7, EOS]])
    plain, memories = model.encode(source).memory, [model.encode(source, tf.constant([1, i])).memory for i in range(9)]
    assert "used" not in plain
    assert len({int(np.sum(memory["used"])) for memory in memories}) > 1


def test_the_share_of_a_slot_is_beta_times_alpha():
    model = make_model("memory", {"num_slots": 3})
    source, target = padded([[4, 5, 6, 7, EOS]]), padded([[5, 6, EOS]])
    states, _ = model.encoder(model.source_embedding(source), tf.ones([1, 5], tf.bool))
    alpha = tf.nn.softmax(states[0] @ model.attention.encoder_scores.kernel).numpy()  # [S, K]
    shared, state = model.start(model.encode(source), 1, model.token_table())
    shares = model.slot_shares(source, target).numpy()[0]  # [K, T, S]
    for step, token in enumerate([BOS, 5, 6]):
        _, beta, state = model.step(tf.constant([[token]]), state, shared)
        for slot in range(3):
            np.testing.assert_allclose(shares[slot, step], beta[0, 0, slot] * alpha[:, slot], rtol=1e-4)
    assert np.abs(shares[0] - shares[1]).max() > 1e-3


def test_the_backward_bridge_of_lstms_reads_h_alone_and_starts_c_from_zeros():
    model = make_model("bahdanau", {}, bridge="backward")
    source = padded([[4, 5, EOS]])
    states, _ = model.encoder(model.source_embedding(source), tf.ones([1, 3], tf.bool))
    weights, bias = model.bridge.dense.kernel.numpy(), model.bridge.dense.bias.numpy()
    ((h, c),) = model.encode(source).cells
    np.testing.assert_allclose(h[0], np.tanh(states[0, 0, 4:].numpy() @ weights + bias), rtol=1e-4)
    np.testing.assert_array_equal(c, np.zeros([1, 8]))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_each_decoder_step_draws_a_new_dropout_mask(kind):
    """All that differs between the steps is the mask between the two layers."""
    decoder = make_model("bahdanau", {}, dropout=0.5, bridge="zero", layers=2, decoder=kind).decoder
    for layer in decoder.stack:
        cell = layer.cell
        cell.recurrent_kernel.assign(0 * cell.recurrent_kernel)
        gates = [1.0, -30.0, 1.0, 1.0] if kind == "lstm" else [-30.0, 1.0, 1.0]  # forgets its state
        cell.bias.assign(np.repeat(gates, 8))
    first = decoder.stack[0].cell
    first.kernel.assign(0 * first.kernel)
    memory = decoder.attention.memorize(tf.zeros([1, 3, 8]), tf.ones([1, 3], tf.bool))
    state = [(tf.zeros([1, 8]),) * (2 if kind == "lstm" else 1)] * 2
    features, _ = decoder(tf.ones([1, 6, 8]), state, memory, tf.constant([1, 2]))
    assert len({tuple(step) for step in features[0].numpy()}) > 3


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"encoder": "rnn"}, "encoder: 'rnn' is none of lstm, gru, cgru"),
        ({"dropout": 1.5}, "dropout: must be at least 0 and below 1, not 1.5"),
        ({"bridge": "zero", "attention": {"name": "none"}}, "bridge: zero hides the source from a model"),
        ({"bridge": "backward", "layers": 2}, "bridge: backward is for layers: 1, not 2"),
        (
            {"tie_embeddings": "all", "embedding_size": 5},
            "tie_embeddings: all needs embedding_size: 8, as units",
        ),
        ({"tie_embeddings": "all", "mix": False}, "tie_embeddings: all needs mix: true"),
        ({"encoder_reduce": (0,)}, r"encoder_reduce\[0\]: must be at least 1 and at most 100, not 0"),
        ({"encoder_reduce": (2, 2)}, "encoder_reduce: 2 factors, but 1 layers have 0 joints"),
        ({"decoder": "rnnsearch", "layers": 2}, "layers: must be 1 with decoder: rnnsearch"),
        ({"decoder": "rnnsearch", "mix": False}, "mix: must be true with decoder: rnnsearch"),
        ({"decoder": "rnnsearch", "input_feeding": False}, "input_feeding: must be true with decoder: rnnsearch"),
        ({"decoder": "rnnsearch", "units": 7}, "units: must be even with decoder: rnnsearch"),
        (
            {"decoder": "rnnsearch", "tie_embeddings": "all"},
            "tie_embeddings: all needs embedding_size: 4, half",
        ),
        ({"decoder": "rnnsearch", "encoder_layers": 2}, "bridge: the bridge backward, .* is for encoder_layers: 1"),
        ({"encoder": "cgru", "encoder_reduce": (2,)}, "encoder_reduce: is for encoder: lstm or gru"),
        ({"encoder": "cgru", "bridge": "backward"}, "bridge: backward is for encoder: lstm or gru; take dense"),
        ({"spec_augment": 1}, "spec_augment: is for sources of vectors"),
        ({"attention": "mocha"}, "attention: expected a mapping such as {name: bahdanau}, not 'mocha'"),
        ({"attention": {"name": "memory", "num_slot": 2}}, "attention.num_slot: .*; did you mean num_slots?"),
    ],
)
def test_options_that_a_model_cannot_have_are_refused(changes, problem):
    arguments = make_model("memory", {}).get_config()
    with pytest.raises(OptionError, match=f"^{problem}"):
        Seq2Seq.from_config({**arguments, **changes})


def test_the_config_of_a_model_of_an_earlier_version_makes_the_same_model():
    """The options stood beside the sizes before they had a dataclass, and Keras files keep them so."""
    model = make_model("memory", {"num_slots": 2})
    earlier = {
        "vocabulary_size": V,
        "max_source_length": 6,
        "layers": 1,
        "units": 8,
        "embedding_size": 8,
        "dropout": 0.0,
        "init_scale": 0.8,
        "input_feeding": True,
        "mix": True,
        "bridge": "auto",
        "tie_embeddings": "none",
        "attention": {"name": "memory", "num_slots": 2},
        "encoder_layers": None,
        "encoder_units": 4,
        "encoder_reduce": [],
        "encoder": "lstm",
        "decoder": "lstm",
        "source_features": None,
        "spec_augment": 0,
        "name": model.name,
        "dtype": "float32",
    }
    again = Seq2Seq.from_config(earlier)
    assert again.get_config() == model.get_config()
    assert [weight.shape for weight in again.weights] == [weight.shape for weight in model.weights]


def test_a_model_is_built_without_a_call(monkeypatch):
    """Keras would trace a call to create weights if a layer did not build itself, which takes most of the time."""

    def called(*arguments, **named):
        raise AssertionError

    for layer in (Seq2Seq, Encoder, Decoder):
        monkeypatch.setattr(layer, "call", called)
    assert make_model("memory", {}).count_params() > 0


def test_a_decoder_works_outside_a_seq2seq_model():
    decoder = Decoder.from_config(make_model("memory", {"num_slots": 2}).decoder.get_config())
    memory = decoder.attention.memorize(tf.random.normal([2, 5, 8]), tf.ones([2, 5], tf.bool))
    features, scores = decoder(tf.random.normal([2, 3, 8]), [(tf.zeros([2, 8]), tf.zeros([2, 8]))], memory)
    assert features.shape == (2, 3, 8)
    assert scores.shape == (2, 3, 2)


def test_layers_are_made_in_the_order_that_seeds_and_stored_optimizers_rely_on():
    names = [layer.name for layer in make_model("memory", {"num_slots": 2}).layers]
    assert names[0].startswith("memory_attention")
    assert names[1:] == ["source_embedding", "target_embedding", "encoder", "bridge", "decoder", "output"]
