"""Hard attention, trained by REINFORCE."""

import json
from types import SimpleNamespace

import hard_attention
import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from memattn.data.vocabulary import EOS, PAD
from memattn.search.translation import Hypotheses

pytestmark = pytest.mark.slow


def test_the_gradient_of_rewards_for_all_losses_is_that_of_the_expected_loss():
    """Sums the estimates over all choices in two steps, weighted by their probabilities."""
    random = np.random.default_rng(3)
    logits = tf.constant(random.normal(size=[2, 3]))  # two steps, three positions
    first_losses = tf.constant(random.normal(size=[3]))
    second_losses = tf.constant(random.normal(size=[3, 3]))  # the second loss depends on both choices
    baseline = tf.constant(random.normal(size=[2]))

    with tf.GradientTape() as tape:
        tape.watch(logits)
        first, second = tf.unstack(tf.nn.softmax(logits))
        expected = tf.reduce_sum(first * first_losses) + tf.reduce_sum(first[:, None] * second * second_losses)
    exact = tape.gradient(expected, logits)

    estimate = tf.zeros_like(logits)
    for i in range(3):
        for j in range(3):
            whole = first_losses[i] + second_losses[i, j]
            with tf.GradientTape() as tape:
                tape.watch(logits)
                log_probabilities = tf.gather(tf.nn.log_softmax(logits), [i, j], axis=1, batch_dims=1)
                value = tf.reduce_sum(hard_attention.policy_loss(log_probabilities, whole, baseline))
            estimate += first[i] * second[j] * tape.gradient(value, logits)
    np.testing.assert_allclose(estimate, exact, rtol=1e-9)


def test_no_gradient_passes_through_the_reward():
    losses, baseline = tf.constant([[1.0, 2.0]]), tf.constant([[0.5, 0.5]])
    with tf.GradientTape() as tape:
        tape.watch([losses, baseline])
        value = hard_attention.policy_loss(tf.math.log([[0.5, 0.25]]), losses, baseline)
    np.testing.assert_allclose(value, [[0.5 * np.log(0.5), 1.5 * np.log(0.25)]], rtol=1e-6)
    assert tape.gradient(value, [losses, baseline]) == [None, None]


def test_rewards_count_one_token_or_all_from_it_on_or_the_whole_sequence():
    rewarded = [function(tf.constant([[1.0, 2.0, 4.0]])) for function in hard_attention.REWARDED.values()]
    np.testing.assert_allclose(rewarded, [[[1, 2, 4]], [[7, 6, 4]], [[7, 7, 7]]])


@pytest.fixture
def layer_and_memory():
    """A mechanism, its memory of a source with two positions of padding, and a query for each of 4,000 draws."""
    tf.keras.utils.set_random_seed(2)
    layer = hard_attention.HardAttention(units=6, initializer={"class_name": "RandomNormal", "config": {"stddev": 1.0}})
    states, query = tf.random.normal([1, 5, 4]), tf.repeat(tf.random.normal([1, 1, 6]), 4_000, 1)
    layer(query[:, :1], states)
    return layer, layer.memorize(states, tf.constant([[True, True, True, False, False]])), query


def test_draws_follow_the_weights_of_bahdanau_attention(layer_and_memory):
    layer, memory, query = layer_and_memory
    weights = layer.probabilities(query[:, :1], memory)[0, 0].numpy()
    choices, _ = layer.score(query, memory, seed=tf.constant([1, 2]))
    np.testing.assert_array_equal(np.unique(choices), [0, 1])
    np.testing.assert_array_equal(np.sum(choices, -1), 1)
    fractions = np.mean(choices, (0, 1))
    assert weights[:3].min() > 0.05
    assert np.ptp(weights[:3]) > 0.1
    assert np.any(layer.score(query, memory, seed=tf.constant([1, 3]))[0] != choices)
    np.testing.assert_allclose(fractions, weights, atol=0.03)  # four standard deviations
    assert not fractions[3:].any()


def test_without_a_seed_the_most_probable_position_is_read(layer_and_memory):
    layer, memory, query = layer_and_memory
    weights = layer.probabilities(query[:, :1], memory)[0, 0].numpy()
    choices, _ = layer.score(query[:, :1], memory)
    np.testing.assert_array_equal(choices[0, 0], np.arange(5) == weights.argmax())


@pytest.mark.long
def test_hard_attention_learns_to_copy(monkeypatch):
    monkeypatch.setattr(hard_attention, "MAX_LENGTH", 3)
    monkeypatch.setattr(hard_attention, "TESTS", (1, 300))
    untrained, trained = hard_attention.train(hard_attention.KINDS[1], seed=1)
    assert untrained < 0.1
    assert trained > 0.5


def test_a_copy_must_be_right_to_its_end(monkeypatch):
    ids = np.array([[4, 5, EOS, PAD], [4, 5, 6, EOS], [4, EOS, PAD, PAD], [7, EOS, PAD, PAD]])
    # Right, too short, too long, and with another symbol.
    tokens = np.array([[[4, 5, EOS]], [[4, 5, EOS]], [[4, 5, EOS]], [[8, EOS, EOS]]])
    hypotheses = Hypotheses(tokens, np.zeros([4, 1], np.int32), np.zeros([4, 1], np.float32))
    monkeypatch.setattr(hard_attention, "Searcher", lambda *_: lambda _: hypotheses)
    model = hard_attention.make_model(hard_attention.SOFT)
    assert hard_attention.fraction_copied(model, ids) == 0.25


@pytest.mark.long
def test_the_script_writes_its_table(tmp_path, monkeypatch, capsys):
    for name, value in {"SEEDS": (1,), "TESTS": (1, 2), "MAX_LENGTH": 2}.items():
        monkeypatch.setattr(hard_attention, name, value)
    monkeypatch.setattr(flags, "FLAGS", SimpleNamespace(output=str(tmp_path / "out" / "table")))
    hard_attention.main()
    assert capsys.readouterr().out.count("copied after") == 2 * len(hard_attention.KINDS)
    stored = json.loads((tmp_path / "out" / "table.json").read_text(encoding="utf-8"))
    assert [row["attention"] for row in stored["rows"]] == list(hard_attention.KINDS)
    assert list(stored["rows"][0]) == ["attention", "L", "seed", "after 1 steps", "after 2 steps"]
    assert "python" in stored
    assert (tmp_path / "out" / "table.csv").exists()
