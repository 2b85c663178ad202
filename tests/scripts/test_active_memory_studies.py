"""Studies of the adding problem, of subsequence search, and of arithmetic with active memory."""

import json
import math
from fractions import Fraction
from types import SimpleNamespace

import adding_problem
import numpy as np
import pytest
import subsequence_search
import tensorflow as tf
from helpers.studies import reproduce_tiny
from studies import kaiser2016

from memattn.runs.trained import load

pytestmark = pytest.mark.slow

ARITHMETIC = """
base: ../../../tiny.yaml
data:
  copy: null
  task: {name: addition, max_length: 3, num_symbols: 2, train_examples: 40, valid_examples: 20}
model: {embedding_size: 256}
sweep:
  grids:
    - model.kind: [neural_gpu]
      model.cell: [dngpu]
      model.width: [1]
    - model.kind: [seq2seq]
      model.attention: [{name: bahdanau}]
"""

DUPLICATE = """
base: ../../../tiny.yaml
data:
  copy: null
  task: {name: duplicate, max_length: 3, num_symbols: 2, train_examples: 40, valid_examples: 20}
model: {kind: neural_gpu, cell: dngpu, width: 1}
decoding: {beam_size: 1, memory_ratio: estimate}
sweep:
  grid: {training.seed: [1, 2]}
"""


@pytest.mark.parametrize("task", ["addition", "multiplication"])
@pytest.mark.parametrize("length", ["50", "100", "50-10000"])
def test_a_target_is_the_sum_or_the_product_of_the_marked_numbers(task, length):
    random = np.random.default_rng(5)
    for _ in range(3):
        inputs, targets = adding_problem.batch(task, length, random)
        assert inputs.shape[0] == adding_problem.BATCH
        if "-" not in length:
            assert inputs.shape[1] == math.ceil(Fraction(11, 10) * int(length))
        for row, target in zip(inputs, targets, strict=True):
            ends = np.flatnonzero(row[:, 1] == -1)
            marked = np.flatnonzero(row[:, 1] == 1)
            assert len(ends) == len(marked) == 2
            assert ends[0] == 0
            assert not row[ends[1] + 1 :].any()
            first, second = row[marked, 0]
            expected = 0.5 + (first + second) / 4 if task == "addition" else first * second
            assert target[0] == pytest.approx(expected, abs=1e-6)
            assert 0 <= target[0] <= 1


def test_a_constant_is_right_as_often_as_published():
    for task, percentage in {"addition": 15.4, "multiplication": 28.0}.items():
        tests = [adding_problem.test_batches(task, "100", np.random.default_rng([seed, 1])) for seed in range(8)]
        best = adding_problem.CONSTANTS[task]
        fractions = [adding_problem.fraction_right(batches, lambda _, best=best: best) for batches in tests]
        assert 100 * np.mean(fractions) == pytest.approx(percentage, abs=2)
    assert adding_problem.published("multiplication", "unweighted", "1000") == "33"
    assert adding_problem.published("multiplication", "memory K=8 softmax/softmax", "1000") == ""


@pytest.mark.parametrize(
    ("validation", "test", "expected"),
    [
        ([0.5, 0.9, 0.9, 0.7], [0.6, 0.8, 0.75, 0.95], (0.75, 0.9, 4, False)),  # the last of the best
        ([0.9, 0.8], [0.6, 1.0], (1.0, 0.8, 2, True)),  # all are right
    ],
)
def test_validation_sequences_choose_the_epoch_whose_test_fraction_is_reported(validation, test, expected, monkeypatch):
    fractions = {"test": iter(test), "validation": iter(validation)}
    monkeypatch.setattr(adding_problem, "fraction_right", lambda batches, _: next(fractions[batches]))
    callback = adding_problem.EpochTest("test", "validation", minutes=60)
    model = SimpleNamespace(stop_training=False, predict_on_batch=None)
    callback.set_model(model)
    for epoch in range(len(test)):
        callback.on_epoch_end(epoch, {"loss": 0.1})
    assert (callback.right, callback.validation_right, callback.epochs, model.stop_training) == expected


@pytest.mark.long
@pytest.mark.parametrize("name", ["feed-forward attention", "memory K=8 sigmoid/softmax"])
def test_a_model_of_the_adding_problem_learns(name, monkeypatch):
    monkeypatch.setattr(adding_problem, "EPOCH", 150)
    monkeypatch.setitem(adding_problem.LEARNING_RATES, "addition", 0.003)
    cell = adding_problem.train("addition", "50", name, minutes=10, epochs=6)
    assert cell["validation_right"] > 0.3  # a constant has 0.15
    assert cell["right"] > 0.25
    assert cell["epochs"] == 6 or cell["right"] == 1


def test_feed_forward_attention_is_the_papers_equation():
    model, inputs = adding_problem.make_model("feed-forward attention"), np.random.default_rng(2).normal(size=[1, 7, 2])
    weights = [weight.numpy().astype(np.float64) for weight in model.weights]
    (kernel, bias), (w, b), *dense = weights[:2], weights[2:4], weights[4:6], weights[6:]

    def leaky(x):
        return np.where(x > 0, x, 0.01 * x)

    h = leaky(inputs[0] @ kernel + bias)
    e = np.exp(np.tanh(h @ w[:, 0] + b))
    x = e / e.sum() @ h
    for dense_kernel, dense_bias in dense:
        x = leaky(x @ dense_kernel + dense_bias)
    np.testing.assert_allclose(model(inputs.astype(np.float32))[0], x, rtol=1e-4, atol=1e-5)


def test_the_loss_of_subsequence_search_is_its_equation():
    embeddings = tf.constant([[0.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(subsequence_search.distances(embeddings, embeddings), [0, 0], atol=2e-4)
    with tf.GradientTape() as tape:
        tape.watch(embeddings)
        value = subsequence_search.loss(subsequence_search.distances(embeddings, embeddings), tf.constant([0.25, 2.0]))
    assert float(value) == pytest.approx(0.75**2 / 2, abs=1e-4)
    assert np.isfinite(tape.gradient(value, embeddings)).all()


def test_the_bhattacharyya_coefficient_is_0_without_overlap_and_1_for_equal_distances():
    random = np.random.default_rng(1)
    near, far = random.uniform(0, 0.4, 500), random.uniform(0.6, 1, 500)
    assert subsequence_search.bhattacharyya(near, far) == 0
    assert subsequence_search.bhattacharyya(near, near) == pytest.approx(1)


def test_a_search_finds_near_embeddings_first_and_unrelated_embeddings_by_chance():
    random = np.random.default_rng(1)
    points = random.normal(size=[200, 3])
    result = subsequence_search.search(points, points + 1e-3, random)
    assert (result["recall at 1"], result["median rank"]) == ("100.0%", 1)
    result = subsequence_search.search(points, random.normal(size=[200, 3]), random)
    assert float(result["recall at 100"].rstrip("%")) == pytest.approx(50, abs=15)


def test_where_all_embeddings_are_equal_a_search_finds_nothing():
    result = subsequence_search.search(np.ones([150, 4]), np.ones([150, 4]), np.random.default_rng(1))
    assert (result["recall at 100"], result["median rank"]) == ("0.0%", 150)


def test_a_table_labels_shares_that_test_sequences_chose(tmp_path, command):
    cell = {"task": "addition", "model": "unweighted", "learning_rate": 0.01, "seed": 1}
    cell |= {"epochs": 9, "constant_right": 0.1, "seconds": 1.0}
    cells = [
        {**cell, "length": "50", "right": 1.0},
        {**cell, "length": "500", "right": 0.25},
        {**cell, "length": "1000", "right": 0.5, "validation_right": 0.75},
    ]
    (tmp_path / "table.json").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    arguments = ["--output", "table", "--tasks", "addition", "--lengths", "50", "--models", "unweighted"]
    command(tmp_path, "scripts.adding_problem", *arguments)
    lines = (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[4] for line in lines[1:]] == ["9", "25.0% (best epoch on test)", "50.0%"]


@pytest.mark.long
@pytest.mark.parametrize("pooling", ["feed-forward attention", "position windows, K = 4"])
def test_training_an_embedding_raises_recall(pooling):
    def recall(steps):
        model = subsequence_search.train(pooling, steps=steps, seed=1)
        return float(subsequence_search.evaluate(model, rows=150, seed=1)["recall at 10"].removesuffix("%"))

    assert recall(150) > recall(1) + 15


@pytest.mark.long
def test_the_table_of_arithmetic_is_written_from_tiny_runs(tmp_path, monkeypatch, command):
    monkeypatch.setattr(kaiser2016, "DIGITS", (2, 6))
    monkeypatch.setattr(kaiser2016, "NUM_PAIRS", 8)
    rows = reproduce_tiny("arithmetic", {"addition": ARITHMETIC}, command, tmp_path, monkeypatch)
    assert [row["model"] for row in rows] == ["neural_gpu dngpu, 1 x 8", "LSTM, bahdanau"]
    assert all(row["6 digits"].endswith("%") for row in rows)
    assert (tmp_path / "results" / "arithmetic" / "small" / "memory.png").stat().st_size > 10_000
    run = next((tmp_path / "runs").rglob("best")).parent
    assert load([str(run)], [], None).models


@pytest.mark.long
def test_the_table_of_memory_lengths_has_a_row_for_each_way_to_choose_one(tmp_path, monkeypatch, command):
    rows = reproduce_tiny("memory_length", {"memory_length": DUPLICATE}, command, tmp_path, monkeypatch)
    assert [row["length of the memory"] for row in rows] == ["estimate", "search", "search, length_penalty: 1"]
    assert {row["seeds"] for row in rows} == {"2"}


def test_the_test_split_of_parsing_has_scores_once_all_seeds_are_finished():
    finished, unfinished = (
        SimpleNamespace(result=SimpleNamespace(scores=scores))
        for scores in ({"bracketing_f1": 70.0, "malformed_trees": 1.0}, {})
    )
    assert kaiser2016._test_f1([finished])["test F1"] == "70.0"
    assert set(kaiser2016._test_f1([finished, unfinished]).values()) == {""}
