"""Properties of encoder, bridge, decoder and model: initial weights, dropout, alignments, options, files; ensembles."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from helpers.marks import slow
from helpers.models import SOURCES, V, make_model, padded
from helpers.neural_gpu import make_model as make_neural_gpu
from studies.mechanisms import NESTED_MEMORY

from memattn.config import DecodingConfig
from memattn.data.vocabulary import BOS, EOS
from memattn.models.dropout import dropout
from memattn.models.encoder import RecurrentEncoder
from memattn.models.interface import Ensemble
from memattn.models.neural_gpu import KINDS, NeuralGPUConfig
from memattn.models.seq2seq import Seq2Seq, Seq2SeqConfig
from memattn.options import OptionError
from memattn.search.searcher import Searcher


@pytest.mark.parametrize(("name", "expected"), [("memory", "zero"), ("none", "dense")])
def test_the_bridge_goes_by_the_attention_mechanism_by_default(name, expected):
    assert make_model(name, {}).bridge.kind == expected


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


def decoded(layer, inputs, states, seed=None):
    """The features [1, 4, F] of a decoder for inputs and source states that are all of one value, from zeros."""
    memory = layer.attention.memorize(states * tf.ones([1, 3, 8]), tf.ones([1, 3], tf.bool))
    cells = [(tf.zeros([1, 8]),) * layer.state_parts] * getattr(layer, "layers", 1)
    return layer(inputs * tf.ones([1, 4, 8]), cells, memory, seed)[0].numpy()


@pytest.mark.parametrize(
    "switches",
    [{"layers": 2}, {"layers": 2, "input_feeding": False}, {"decoder": "gru"}, {"decoder": "rnnsearch"}],
    ids=str,
)
def test_embeddings_contexts_and_upper_layers_of_a_decoder_have_dropout(switches):
    """Where an input is 0, dropping it changes nothing. A bias gives the first of two layers an output."""
    layer = make_model("bahdanau", {}, dropout=0.5, **switches).decoder
    has_upper_layer = switches.get("layers") == 2
    if has_upper_layer:
        layer.stack[0].cell.bias.assign(tf.ones([32]))
    for embedding, state, is_read in (
        (1.0, 0.0, True),
        (0.0, 1.0, has_upper_layer or "input_feeding" not in switches),
        (0.0, 0.0, has_upper_layer),
    ):
        dropped, plain = (decoded(layer, embedding, state, seed) for seed in (tf.constant([1, 2]), None))
        assert (np.abs(dropped - plain).max() > 1e-3) == is_read


@pytest.mark.parametrize("cell", ["lstm", slow("gru")])
def test_the_upper_layers_of_the_encoder_have_dropout(cell):
    """The first layers read zeros; their biases give them an output."""
    encoder = RecurrentEncoder(Seq2SeqConfig(encoder=cell, layers=2, units=4, dropout=0.5), initializer="ones")
    encoder.build((None, None, 3))
    for layer in (encoder.forward[0], encoder.backward[0]):
        layer.cell.bias.assign(tf.ones_like(layer.cell.bias))
    inputs, mask = tf.zeros([1, 4, 3]), tf.ones([1, 4], tf.bool)
    dropped, plain = (encoder(inputs, mask, seed)[0] for seed in (tf.constant([1, 2]), None))
    for half in (slice(4), slice(4, 8)):
        assert np.abs(dropped[..., half] - plain[..., half]).max() > 1e-3


def test_both_directions_of_the_encoder_draw_masks_of_their_own():
    """With equal weights and a single position, the two directions would otherwise be equal."""
    encoder = RecurrentEncoder(Seq2SeqConfig(layers=1, units=4, dropout=0.5), initializer="ones")
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


@pytest.mark.parametrize("kind", ["lstm", slow("gru")])
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
    features = decoded(decoder, 1.0, 0.0, tf.constant([1, 2]))
    assert len({tuple(step) for step in features[0]}) > 3


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"encoder": "rnn"}, "encoder: 'rnn' is none of lstm, gru, cgru"),
        ({"bridge": "zero", "attention": {"name": "none"}}, "bridge: zero hides the source from a model"),
        ({"tie_embeddings": "all", "embedding_size": 5}, "tie_embeddings: all needs embedding_size: 8, as units"),
        ({"encoder_reduce": (2, 2)}, "encoder_reduce: 2 factors, but 1 layers have 0 joints"),
        ({"encoder": "cgru", "bridge": "backward"}, "bridge: backward is for encoder: lstm or gru; take dense"),
        ({"decoder": "rnnsearch", "units": 9}, "units: must be even with decoder: rnnsearch, not 9"),
        ({"decoder": "rnnsearch", "encoder_layers": 2}, "bridge: the bridge backward, .* is for encoder_layers: 1"),
        ({"spec_augment": 1}, "spec_augment: is for sources of vectors"),
        ({"attention": "mocha"}, "attention: expected a mapping such as {name: bahdanau}, not 'mocha'"),
        ({"attention": {"name": "memory", "num_slot": 2}}, "attention.num_slot: .*; did you mean num_slots?"),
    ],
)
def test_options_that_a_model_cannot_have_are_refused(changes, problem):
    arguments = make_model("memory", {}).get_config()
    with pytest.raises(OptionError, match=f"^{problem}"):
        Seq2Seq.from_config({**arguments, **changes})


def test_layers_are_made_in_the_order_that_seeds_and_stored_optimizers_rely_on():
    names = [layer.name for layer in make_model("memory", {"num_slots": 2}).layers]
    assert names[0].startswith("memory_attention")
    assert names[1:] == ["source_embedding", "target_embedding", "encoder", "bridge", "decoder", "output"]


def test_models_with_attention_align_and_an_ensemble_does_if_all_of_its_models_do():
    bahdanau, none, neural_gpu = make_model("bahdanau", {}), make_model("none", {}), make_neural_gpu("extended")
    assert [model.has_alignments for model in (bahdanau, none, neural_gpu)] == [True, False, False]
    assert Ensemble([bahdanau, bahdanau]).has_alignments
    assert not Ensemble([bahdanau, none]).has_alignments


@pytest.mark.slow
def test_an_ensemble_of_models_of_different_precision_averages_their_weights_in_float32():
    models = [make_model("bahdanau", {}, dtype=dtype) for dtype in ("float32", "mixed_bfloat16")]
    source, target = padded(SOURCES), padded([[4, 5, EOS]] * len(SOURCES))
    weights = [tf.cast(model.alignments(source, target), tf.float32) for model in models]
    averages = Ensemble(models).alignments(source, target)
    assert averages.dtype == tf.float32
    np.testing.assert_allclose(averages, (weights[0] + weights[1]) / 2, rtol=1e-6)
    config = DecodingConfig(beam_size=2, max_length=3, coverage_penalty=0.2, jit_compile=False)
    Searcher(Ensemble(models), config)(source.numpy())


NEURAL_GPU = NeuralGPUConfig(layers=1, units=6, width=2, cell="dngpu", dropout=0.25)
MODELS = {
    "memory": partial(make_model, "memory", {"num_slots": 2}, encoder_reduce=(2,), encoder_layers=2, init_scale=0.75),
    "tied": partial(make_model, "bahdanau", {}, tie_embeddings="all", init_scale=0.75),
    "rnnsearch": partial(make_model, "bahdanau", {}, decoder="rnnsearch", init_scale=0.75),
    **{name: partial(kind, NEURAL_GPU, vocabulary_size=V, max_source_length=6) for name, kind in KINDS.items()},
}


@pytest.mark.parametrize("name", ["memory", "neural_gpu", *map(slow, sorted(MODELS.keys() - {"memory", "neural_gpu"}))])
def test_a_keras_file_restores_a_model(name, tmp_path):
    model, source = MODELS[name](), padded([[4, 5, 2], [4, 2]])
    model.save(tmp_path / "model.keras")
    restored = tf.keras.models.load_model(tmp_path / "model.keras")
    assert restored.get_config() == model.get_config()
    np.testing.assert_allclose(model(source, source), restored(source, source), rtol=1e-6, atol=1e-7)
