"""Nested memory: training with the first k slots, drawn for each source, and keeping the first slots after training."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from helpers.equations import LENGTHS, QUERIES, SCORING, STATES, B, D, Q, S, mask
from studies.mechanisms import NESTED_MEMORY
from studies.mechanisms.nested_memory import NestedMemoryAttention

from memattn import MemoryAttention
from memattn.runs.trained import load
from memattn.training.trainer import train

pytestmark = pytest.mark.slow

K = 8


def layer(**options):
    attention = NestedMemoryAttention(num_slots=K, **options)
    attention(QUERIES, STATES)
    return attention


def assert_only_first_slots(contexts, attention, slots, **options):
    """The contexts [B, Q, D] are those of memories with only the first slots, as many as `slots` [B], and no others."""
    for row, (length, number) in enumerate(zip(LENGTHS, slots, strict=True)):
        small = MemoryAttention(num_slots=number, **options)
        states, queries = STATES[row : row + 1, :length], QUERIES[row : row + 1]
        small(queries, states)
        small.encoder_scores.kernel.assign(attention.encoder_scores.kernel[:, :number])
        small.decoder_scores.kernel.assign(attention.decoder_scores.kernel[:, :number])
        np.testing.assert_allclose(contexts[row], small(queries, states)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("encoder", "decoder"), list(itertools.product(SCORING, SCORING)))
def test_each_source_trains_with_its_first_slots_alone(encoder, decoder):
    options = {"encoder_scoring": encoder, "decoder_scoring": decoder}
    attention, used = layer(**options), set()
    for seed in range(8):
        memory = attention.memorize_in_training(tf.constant(STATES), tf.constant(mask()), tf.constant([seed, 1]))
        scores, _ = attention.score(tf.constant(QUERIES), memory)
        slots = memory["used"].numpy().sum((1, 2))
        assert_only_first_slots(tf.matmul(scores, memory["values"]), attention, slots, **options)
        used.update(slots)
    assert 1 <= min(used) < max(used) <= K
    assert len(used) > 4


@pytest.mark.parametrize("slots", [1, 3, 8])
def test_a_memory_is_cut_to_its_first_slots(slots):
    attention = layer()
    attention.keep(slots)
    assert_only_first_slots(attention(QUERIES, STATES, value_mask=mask()), attention, [slots] * B)
    memory = attention.memorize(tf.constant(STATES), tf.constant(mask()))
    assert memory["values"].shape[1] == min(slots, S)


def test_slots_are_drawn_anew_in_each_training_step_and_not_elsewhere():
    attention = layer()
    attention.keep(5)
    plain, again = (attention(QUERIES, STATES).numpy() for _ in range(2))
    np.testing.assert_array_equal(plain, again)
    first, second = (attention(QUERIES, STATES, training=True).numpy() for _ in range(2))
    assert first.shape == (B, Q, D)
    assert (first != plain).any()
    assert (first != second).any()


@pytest.mark.parametrize(("slots", "problem"), [(2.5, "expected an int, not 2.5"), (9, "must be at most 8, not 9")])
def test_a_memory_cannot_be_cut_to_other_numbers_of_slots(slots, problem):
    with pytest.raises(ValueError, match=f"num_slots: {problem}"):
        layer().keep(slots)


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
