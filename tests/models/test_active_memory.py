"""Active memory (Kaiser & Bengio, 2016), in Neural GPUs and as an encoder, equals NumPy; options are checked."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from helpers.equations import array, dense, layer_norm, randomize
from helpers.marks import slow
from helpers.models import make_model as make_seq2seq
from helpers.models import padded
from helpers.neural_gpu import SOURCE, TARGET, M, make_model, run
from helpers.runs import TINY

from memattn import config as configs
from memattn.data.vocabulary import BOS, EOS, PAD
from memattn.errors import ConfigError
from memattn.models.active_memory import CELLS, hard_sigmoid, hard_tanh
from memattn.models.neural_gpu import KINDS
from memattn.search.searcher import Searcher

QUICK = [("neural_gpu", "cgru", 4), ("markovian", "dngpu", 1), ("extended", "dngpu", 1), ("extended", "cgru", 4)]
every_model = pytest.mark.parametrize(
    ("kind", "cell", "width"),
    [model if model in QUICK else slow(*model) for model in itertools.product(KINDS, CELLS, (1, 4))],
)


def expected_logits(model, source, target):
    """Logits [T, V] of a pair, computed step by step as in the paper."""
    n = max(len(source), len(target))
    s = np.zeros([n, model.width, M])
    s[: len(source), 0] = array(model.source_embedding.embeddings)[source]
    if type(model.encoder[0]) is CELLS["dngpu"]:
        s = s.clip(-1, 1)
    for _ in range(n):
        s = run(model.encoder, s)
    kernel, bias = array(model.output_layer.kernel), array(model.output_layer.bias)
    rows, p = [], np.zeros_like(s)
    for k, token in enumerate([BOS, *target[:-1]]):
        embedded = None if model.target_embedding is None else array(model.target_embedding.embeddings)[token]
        if model.decoder:
            if k:
                p[k - 1, 0] = embedded
            s = run(model.decoder, s, p)
            rows.append(s[k, 0])
        else:
            rows.append(s[k, 0] if embedded is None else np.concatenate([s[k, 0], embedded]))
    return np.array(rows) @ kernel + bias


@every_model
def test_logits_of_a_padded_batch_equal_the_equations_of_the_paper_also_step_by_step(kind, cell, width):
    model, queries = make_model(kind, cell, width), 2
    pairs = [(SOURCE, TARGET), ([5, EOS], [4, 6, EOS]), ([], [])]
    sources, targets = (padded(rows, 7) for rows in zip(*pairs, strict=True))
    expected = [expected_logits(model, *pair) for pair in pairs[:2]]
    forced = model(sources, targets)
    for row in range(2):
        np.testing.assert_allclose(forced[row, : len(expected[row])], expected[row], rtol=1e-4, atol=1e-5)
    encoded = model.encode(sources)._replace(lengths=tf.constant([len(TARGET), 3, 0]))
    decoding, state = model.start(encoded, queries, model.token_table())
    shifted = np.pad(targets, [[0, 0], [1, 0]], constant_values=BOS)
    for step in range(len(TARGET)):
        tokens = tf.repeat(tf.constant(shifted[:, step : step + 1]), queries, 1)
        logits, scores, state = model.step(tokens, state, decoding)
        assert scores.shape == (3, queries, 0)
        for row in range(2):
            for by_equations in expected[row][step : step + 1]:
                np.testing.assert_allclose(logits[row], [by_equations] * queries, rtol=1e-4, atol=1e-5)


def test_the_diagonal_cell_pulls_saturated_sums_back():
    sums = tf.constant([[-2.0, -0.95, -0.5, 0.5, 0.95, 2.0, 3.0]])[:, :, None]  # the last one is padding
    for hard, slope in ((hard_sigmoid, 0.5), (hard_tanh, 1.0)):
        with tf.GradientTape() as tape:
            tape.watch(sums)
            outputs = hard(sums, tf.constant([6]))[:, :6]
        gradient = tape.gradient(outputs, sums)[0, :, 0].numpy()
        assert gradient[6] == 0
        unsaturated = slope * np.array([0, 1, 1, 1, 1, 0])
        pull = 0.01 * unsaturated.mean() * np.array([-1, -1, 0, 0, 1, 1])  # descent moves against the gradient
        np.testing.assert_allclose(gradient[:6], unsaturated + pull, rtol=1e-5)


TREE = {**TINY, "model": {"kind": "extended", "units": 8, "layers": 1, "width": 1}}


def test_active_memory_is_not_compiled_by_default():
    config = configs.from_dict({**TREE, "training": {}, "decoding": {}})
    assert config.training.jit_compile is config.decoding.jit_compile is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {}, "decoding": {"memory_ratio": 1}}, "decoding.memory_ratio: is for active memory"),
        ({"decoding": {"memory_ratio": "guess"}}, "decoding.memory_ratio: .*estimate"),
        ({"decoding": {"sample": {}}}, "decoding.memory_ratio: decoding.sample needs one"),
        ({"decoding": {"coverage_penalty": 1.0}}, "coverage_penalty"),
        ({"training": {"teacher": "runs/x"}}, "training.teacher: needs model.kind: seq2seq"),
    ],
)
def test_options_that_do_not_fit_active_memory_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        config = configs.from_dict({**TREE, **changes})
        Searcher(make_model(config.model.kind), config.decoding)


@pytest.mark.parametrize(("kind", "cell"), [slow("extended", "cgru"), ("neural_gpu", "dngpu")])
def test_every_cell_drops_in_training(kind, cell):
    model = make_model(kind, cell, width=1, dropout=0.5)
    source, target = padded([SOURCE], 4), padded([TARGET], 5)
    plain = model(source, target)
    first, second = (model(source, target, tf.constant([1, seed])) for seed in (2, 3))
    assert np.abs(first - plain).max() > 1e-3
    assert np.abs(first - second).max() > 1e-3


def test_the_dropout_of_a_cgru_falls_with_the_length_and_keeps_the_mean():
    cell, lengths = CELLS["cgru"](maps=99, width=1, dropout=0.4), tf.constant([8, 32])
    memory = tf.random.stateless_uniform([2, 32, 1, 99], [1, 2], 0.5, 1.0)
    plain, dropped = cell(memory, lengths).numpy(), cell(memory, lengths, seed=tf.constant([3, 4])).numpy()
    for row, (length, rate) in enumerate(zip((8, 32), (0.4, 0.1), strict=True)):
        before, after = plain[row, :length], dropped[row, :length]
        assert abs((after == 0).mean() - rate) < 0.05
        kept = after != 0
        np.testing.assert_allclose(after[kept], before[kept] / (1 - rate), rtol=1e-5)


ACTIVE_ENCODER = {"encoder": "cgru", "encoder_layers": 2, "bridge": "dense"}


def test_states_are_the_memory_after_as_many_steps_as_positions_and_the_final_state_their_mean():
    model, source = make_seq2seq("bahdanau", {}, **ACTIVE_ENCODER), [5, 4, 6, EOS]
    batch = tf.constant([source + [PAD, PAD], [4, EOS, PAD, PAD, PAD, PAD], [PAD] * 6])
    embedding, mask = model.source_embedding, model.source_embedding.mask(batch)
    norm = model.encoder.norm
    randomize(norm.weights)
    states, final = model.encoder(embedding(batch), mask)
    for row, ids in enumerate((source, [4, EOS], [])):
        memory = layer_norm(norm, dense(model.encoder.input_layer, array(embedding.embeddings)[ids]))[:, None]
        for _ in ids:
            memory = run(model.encoder.cells, memory)
        np.testing.assert_allclose(states[row, : len(ids)], memory[:, 0], rtol=1e-4, atol=1e-5)
        assert not np.any(states[row, len(ids) :])
        np.testing.assert_allclose(final[row], memory[:, 0].sum(0) / max(len(ids), 1), rtol=1e-4, atol=1e-5)


def test_a_memory_keeps_most_of_a_token_at_its_position_at_first():
    model = make_seq2seq("bahdanau", {}, **ACTIVE_ENCODER)
    for cell in model.encoder.cells:
        np.testing.assert_allclose(cell.bias[: cell.maps], np.full(cell.maps, 2.0))  # the update gate's
    source = tf.constant([[5, 4, 6, 4, 5, 6, 4, 5, 6, 5, 4, 6, 4, EOS]])
    states = model.encode(source).memory["values"]
    assert np.sqrt(np.mean(np.square(states))) > 0.3  # was 0.01 without layer normalization and with a bias of 1


def test_dropout_changes_states_in_training_alone():
    model = make_seq2seq("bahdanau", {}, dropout=0.5, **ACTIVE_ENCODER)
    source = tf.constant([[5, 4, 6, EOS]])
    first, second = (model.encode(source, tf.constant([1, seed])).memory["values"] for seed in (1, 2))
    assert np.abs(first - second).max() > 1e-3
    plain = make_seq2seq("bahdanau", {}, **ACTIVE_ENCODER)
    np.testing.assert_array_equal(model.encode(source).memory["values"], plain.encode(source).memory["values"])
