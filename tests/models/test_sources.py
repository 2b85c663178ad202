"""Sources of vectors, and encoders that join neighbouring outputs."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.equations import recurrent_layer
from helpers.marks import slow
from helpers.models import make_model
from helpers.runs import NO_STRATEGY

from memattn.config import DecodingConfig, TrainingConfig
from memattn.data.vocabulary import EOS, PAD
from memattn.models.embeddings import FeatureReader
from memattn.models.encoder import RecurrentEncoder
from memattn.models.seq2seq import Seq2SeqConfig
from memattn.search.searcher import Searcher
from memattn.serving.scorer import Scorer
from memattn.training.step import TrainingStep

F = 3
LENGTHS = [9, 4, 1, 6]


def batch_of(lengths, width=0, seed=1):
    """Vectors [B, S, F] of sources with these lengths, the same for any width, padded with NaN."""
    batch = np.full([len(lengths), max(width, *lengths), F], np.nan, np.float32)
    for row, length in enumerate(lengths):
        batch[row, :length] = np.random.RandomState([seed, row]).randn(length, F)
    return batch


def feature_model(name="bahdanau", options=None, **switches):
    return make_model(
        name, options or {}, source_features=F, layers=2, encoder_layers=3, encoder_reduce=[2, 3], **switches
    )


@pytest.mark.parametrize("length", [1, 7])
def test_an_encoder_joins_the_same_neighbours_in_both_directions(length):
    config = Seq2SeqConfig(layers=3, units=4, encoder_reduce=[2, 3])
    encoder = RecurrentEncoder(config, initializer="glorot_uniform")
    encoder.build((None, None, F))
    inputs = np.random.RandomState(3).randn(length, F).astype(np.float32)
    tops = []
    for stack, turn in ((encoder.forward, 1), (encoder.backward, -1)):
        outputs = inputs
        for layer, factor in zip(stack, (2, 3, 1), strict=True):
            outputs = recurrent_layer(layer.cell, outputs[::turn])[0][::turn]
            outputs = np.pad(outputs, [(0, -len(outputs) % factor), (0, 0)])
            outputs = outputs.reshape(len(outputs) // factor, -1)
        tops.append(outputs)
    padded = np.pad(inputs[None], [(0, 0), (0, 4), (0, 0)], constant_values=5.0)
    mask = np.arange(length + 4)[None] < length
    states, _ = encoder(tf.constant(padded), tf.constant(mask))
    count = -(-length // 6)
    assert encoder.state_mask(tf.constant(mask)).numpy().sum() == count
    np.testing.assert_allclose(states[0, :count], np.concatenate(tops, -1), atol=1e-5)


@pytest.mark.parametrize(("name", "options"), [("memory", {"num_slots": 4}), slow("bahdanau", {}), slow("mocha", {})])
def test_padding_and_other_sources_do_not_change_outputs(name, options):
    model = feature_model(name, options)
    target = tf.constant([[5, 7, EOS]] * len(LENGTHS))
    together = model(tf.constant(batch_of(LENGTHS, 14)), target).numpy()
    for row, length in enumerate(LENGTHS):
        alone = model(tf.constant(batch_of(LENGTHS)[row : row + 1, :length]), target[:1]).numpy()
        np.testing.assert_allclose(together[row], alone[0], atol=1e-5)


def test_a_score_is_that_under_teacher_forcing_with_a_coverage_penalty_of_the_real_states():
    """The log-probability plus the penalty times the sum of log min(weight of a state in all steps, 1)."""
    model, source, penalty = feature_model(), batch_of(LENGTHS, 12), 0.2
    config = DecodingConfig(beam_size=3, max_length_ratio=4.0, jit_compile=False, coverage_penalty=penalty)
    hypotheses = Searcher(model, config)(source)
    for row, length in enumerate(LENGTHS):
        limit = 4 * -(-length // 6)  # a hypothesis of full length has no end
        target = np.array([[*hypotheses.tokens[row, 0, : hypotheses.lengths[row, 0]], EOS][:limit]], np.int32)
        alone = source[row : row + 1, :length]
        _, weights = model._teacher_forced(model.encode(tf.constant(alone)), tf.constant(target), None)
        coverage = np.log(np.minimum(weights.numpy()[0].sum(0), 1)).sum()
        expected = Scorer(model)(alone, target)[0] + penalty * coverage
        np.testing.assert_allclose(hypotheses.scores[row, 0], expected, rtol=1e-4)


@pytest.mark.parametrize(("name", "options"), [("bahdanau", {}), ("memory", {"num_slots": 4})])
def test_alignments_share_the_weight_of_a_state_out_to_its_vectors(name, options):
    """A state stands for six vectors; the last one of a source, for those that are left."""
    lengths = [12, 5, 7]
    pair = tf.constant(batch_of(lengths, 15)), tf.constant([[5, EOS]] * 3)
    model = feature_model(name, options)
    weights, shares = model.alignments(*pair).numpy(), model.slot_shares(*pair).numpy()
    assert weights.shape == (3, 2, 15)
    assert shares.shape == (3, options.get("num_slots", 0), 2, 15)
    for row, length in enumerate(lengths):
        assert not weights[row, :, length:].any()
        for start in range(0, length, 6):
            vectors = weights[row, :, start : min(start + 6, length)]
            np.testing.assert_allclose(vectors, vectors[:, :1].repeat(vectors.shape[1], 1))
    if name == "bahdanau":
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    else:
        np.testing.assert_allclose(shares.sum(1), weights, atol=1e-5)


@pytest.mark.slow
def test_a_training_step_changes_every_weight_and_ignores_rows_of_padding():
    source, target = batch_of(LENGTHS, 12), np.array([[5, 7, EOS]] * len(LENGTHS), np.int32)
    results = []
    for rows in (0, 2):
        model = feature_model()
        before = [np.array(weight) for weight in model.trainable_variables]
        batch = (
            np.pad(source, [(0, rows), (0, 0), (0, 0)], constant_values=np.nan),
            np.pad(target, [(0, rows), (0, 0)], constant_values=PAD),
        )
        step = TrainingStep(model, TrainingConfig(jit_compile=False), NO_STRATEGY)
        results.append(step([batch], 0, 0.1).numpy())
        after = [np.array(weight) for weight in model.trainable_variables]
        assert all((old != new).any() for old, new in zip(before, after, strict=True))
    np.testing.assert_allclose(*results, rtol=1e-4)


def test_masks_of_training_cover_stretches_of_time_and_bands_and_depend_on_the_seed():
    reader, source = FeatureReader(30, spec_augment=2), np.ones([200, 40, 30], np.float32)
    source[:, 25:] = np.nan
    masked, again, other_seed = (
        reader(tf.constant(source), tf.constant(seed)).numpy() for seed in ([1, 2], [1, 2], [1, 3])
    )
    np.testing.assert_array_equal(masked, again)
    assert (masked != other_seed).any()
    assert not masked[:, 25:].any()
    in_time, in_bands = (masked[:, :25] == 0).all(2), (masked[:, :25] == 0).all(1)
    np.testing.assert_array_equal(masked[:, :25] == 0, in_time[:, :, None] | in_bands[:, None])
    assert 0 < in_time.sum(1).max() <= 2 * 5
    assert 0 < in_bands.sum(1).max() <= 2 * 10
    assert in_time.any(0).all()  # any position may be covered
    assert in_bands.any(0).all()
    np.testing.assert_array_equal(reader(tf.constant(source)), np.nan_to_num(source))


def test_no_mask_covers_more_than_its_fraction():
    source = tf.ones([500, 4, 2])  # a fifth of the positions, or a third of the values, is less than one
    np.testing.assert_array_equal(FeatureReader(2, spec_augment=2)(source, tf.constant([1, 2])), source)


def test_vectors_are_masked_in_training_alone():
    model, source = feature_model(spec_augment=2), tf.constant(batch_of(LENGTHS, 12))
    plain, again = model.encode(source).memory["values"], model.encode(source).memory["values"]
    np.testing.assert_allclose(plain, again, atol=1e-6)
    first, second = (model.encode(source, tf.constant([1, seed])).memory["values"] for seed in (2, 3))
    assert np.abs(first - plain).max() > 1e-3
    assert np.abs(first - second).max() > 1e-3
