"""Nested memory: training with the first k slots, drawn for each source, and keeping the first slots after training."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from studies.mechanisms import NESTED_MEMORY
from studies.mechanisms.nested_memory import NestedMemoryAttention

from memattn import MemoryAttention
from memattn.runs.trained import load
from memattn.training.trainer import train

pytestmark = pytest.mark.slow

B, S, T, D, U, K = 6, 7, 3, 5, 4, 8
RANDOM = np.random.default_rng(5)
STATES = RANDOM.normal(size=[B, S, D]).astype(np.float32)
QUERIES = RANDOM.normal(size=[B, T, U]).astype(np.float32)
LENGTHS = [7, 3, 5, 1, 7, 4]
MASK = np.arange(S) < np.array(LENGTHS)[:, None]
SCORINGS = list(itertools.product(("softmax", "sigmoid"), repeat=2))


def layer(num_slots=K, **options):
    attention = NestedMemoryAttention(num_slots=num_slots, **options)
    attention(tf.constant(QUERIES), tf.constant(STATES))
    return attention


def small_memory_context(attention, slots, row, **options):
    """The context [T, D] of a source, from a memory that has only the first slots and their weights."""
    small = MemoryAttention(num_slots=slots, **options)
    small(tf.constant(QUERIES), tf.constant(STATES))
    small.encoder_scores.kernel.assign(attention.encoder_scores.kernel[:, :slots])
    small.decoder_scores.kernel.assign(attention.decoder_scores.kernel[:, :slots])
    real = slice(row, row + 1), slice(LENGTHS[row])
    return small(tf.constant(QUERIES[row : row + 1]), tf.constant(STATES[real])).numpy()[0]


@pytest.mark.parametrize(("encoder", "decoder"), SCORINGS)
def test_each_source_trains_with_its_first_slots_alone(encoder, decoder):
    options = {"encoder_scoring": encoder, "decoder_scoring": decoder}
    attention, used = layer(**options), set()
    for seed in range(4):
        memory = attention.memorize_in_training(tf.constant(STATES), tf.constant(MASK), tf.constant([seed, 1]))
        scores, _ = attention.score(tf.constant(QUERIES), memory)
        contexts = tf.matmul(scores, memory["values"]).numpy()
        for row, slots in enumerate(memory["used"].numpy().sum((1, 2))):
            used.add(slots)
            np.testing.assert_allclose(
                contexts[row], small_memory_context(attention, slots, row, **options), rtol=1e-4, atol=1e-5
            )
    assert min(used) >= 1
    assert max(used) <= K
    assert len(used) > 4


@pytest.mark.parametrize("slots", [1, 3, 8])
def test_a_memory_is_cut_to_its_first_slots(slots):
    attention = layer()
    attention.keep(slots)
    contexts = attention(tf.constant(QUERIES), tf.constant(STATES), value_mask=tf.constant(MASK)).numpy()
    for row in range(B):
        np.testing.assert_allclose(contexts[row], small_memory_context(attention, slots, row), rtol=1e-4, atol=1e-5)
    memory = attention.memorize(tf.constant(STATES), tf.constant(MASK))
    assert memory["values"].shape[1] == min(slots, S)


def test_slots_are_drawn_in_training_only():
    attention = layer()
    tf.keras.utils.set_random_seed(1)
    plain = attention(tf.constant(QUERIES), tf.constant(STATES)).numpy()
    np.testing.assert_array_equal(attention(tf.constant(QUERIES), tf.constant(STATES)).numpy(), plain)
    drawn = [attention(tf.constant(QUERIES), tf.constant(STATES), training=True).numpy() for _ in range(2)]
    assert (drawn[0] != plain).any()
    assert (drawn[0] != drawn[1]).any()


def test_a_layer_that_was_cut_trains_with_its_remaining_slots():
    attention = layer()
    attention.keep(2)
    assert attention(tf.constant(QUERIES), tf.constant(STATES), training=True).shape == (B, T, D)
    seed = tf.constant([1, 2])
    drawn = attention.memorize_in_training(tf.constant(STATES), tf.constant(MASK), seed)["used"].numpy().sum((1, 2))
    assert set(drawn) == {1, 2}
    with pytest.raises(ValueError, match="num_slots: .*not 2.5"):
        attention.keep(2.5)


def test_a_memory_cannot_be_cut_to_more_slots_than_it_has():
    with pytest.raises(ValueError, match="num_slots: must be at most 8, not 9"):
        layer().keep(9)


def test_a_trained_model_reads_a_cut_memory(tiny_config, tmp_path):
    run_dir = tmp_path / "run"
    nested = {"model.attention.name": NESTED_MEMORY, "model.attention.num_slots": 4}
    assert train(tiny_config(nested), str(run_dir), tf.distribute.get_strategy()) == 0
    model = load([str(run_dir)], [], None).model
    model.attention.keep(2)
    source, target = tf.constant([[4, 5, 6, 4, 5, 2]]), tf.constant([[4, 5, 2]])
    assert model.encode(source).memory["values"].shape[1] == 2
    shares = model.slot_shares(source, target)
    assert shares.shape == (1, 2, 3, 6)
    np.testing.assert_allclose(tf.reduce_sum(shares, 1), model.alignments(source, target), rtol=1e-5, atol=1e-6)
