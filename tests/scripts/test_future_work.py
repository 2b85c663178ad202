"""The tables of slots by task, distillation and long sources, from tiny and from made-up runs."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.models import make_model, padded
from helpers.studies import made_up, reproduce_tiny, rows_of
from studies.britz2017 import future_work
from studies.output import Output

from memattn.data.sentences import Sentences
from memattn.data.vocabulary import EOS, Vocabulary
from memattn.evaluation import evaluate as evaluation

pytestmark = pytest.mark.slow

SOURCE = padded([[4, 5, 6, 7, 8, EOS], [9, 10, EOS], [5, EOS]]).numpy()
TASKS = """
base: ../../../tiny.yaml
data:
  copy: null
  task: {num_symbols: 3, train_examples: 40, valid_examples: 20}
sweep:
  cells:
    - {data.task.name: selective_copy, data.task.max_length: 6, data.task.marked: 2}
  grid:
    model.attention:
      - {name: bahdanau}
      - {name: memory, num_slots: 2}
      - {name: studies.mechanisms.nested_memory:NestedMemoryAttention, num_slots: 4}
"""
LONG_SOURCES = """
base: ../../../tiny.yaml
data:
  copy: null
  task: {name: selective_copy, max_length: 6, marked: 2, num_symbols: 3, train_examples: 40, valid_examples: 20}
sweep:
  grid:
    model.attention: [{name: bahdanau}, {name: memory, num_slots: 2}]
"""
TEACHERS = """
base: ../../../tiny.yaml
sweep:
  grid: {data.copy.max_length: [5], model.attention: [{name: bahdanau}]}
"""
STUDENTS = """
base: ../../../tiny.yaml
training: {stop_at: 95}
sweep:
  cells:
    - {data.copy.max_length: 5}
    - {data.copy.max_length: 5, training.teacher: runs/reproduce/teachers.small/max_length=5-bahdanau}
"""


@pytest.fixture
def make(tmp_path, monkeypatch, command):
    """make(name) trains the tiny runs of a target, writes its table and returns the rows."""
    studies = {"tasks": TASKS, "long_sources": LONG_SOURCES, "teachers": TEACHERS, "taught": STUDENTS}
    return lambda name: reproduce_tiny(name, studies, command, tmp_path, monkeypatch)


@pytest.mark.long
def test_tables_are_written_from_tiny_runs(make, tmp_path, monkeypatch):
    task = "selective_copy, L = 6, 2 marked"
    assert [row["task"] for row in make("slots")] == [task]
    assert (tmp_path / "results" / "slots" / "small" / "residuals.png").stat().st_size > 10_000
    assert [(row["task"], row["K"]) for row in make("nested_slots")] == [(task, "2")]
    monkeypatch.setattr(future_work, "LONG_LENGTHS", (6, 30))
    rows = make("long_sources")
    models_and_lengths = [(row["model"], row["L"]) for row in rows]
    assert models_and_lengths == [("bahdanau", "6"), ("bahdanau", "30"), ("K=2", "6"), ("K=2", "30")]
    bahdanau_short, bahdanau_long, memory_short, memory_long = (float(row["a step reads, KiB"]) for row in rows)
    assert bahdanau_long > 4 * bahdanau_short
    assert memory_long == memory_short < bahdanau_short
    assert all(0 < float(row["weight on the right symbol %"]) < 100 for row in rows)
    rows = make("teacher")
    assert [row["taken from the teacher"] for row in rows] == ["", "encoder and contexts"]
    assert [row["training steps of the teacher"] for row in rows] == ["", "4"]


def test_the_residual_variance_equals_that_of_the_best_projection():
    model = make_model("bahdanau", {})
    encoded = model.encode(tf.constant(SOURCE))
    contexts = model.teacher_forced_logits_and_contexts(encoded, tf.constant(SOURCE))[1].numpy()
    variances = future_work.residual_variances(model, SOURCE, SOURCE, 8)
    for slots in (0, 1, 2, 4):
        residual = total = 0.0
        for contexts_of_sentence, ids in zip(contexts, SOURCE, strict=True):
            x = contexts_of_sentence[ids != 0].astype(np.float64)  # [T, D]
            _, directions = np.linalg.eigh(x.T @ x)
            principal = directions[:, ::-1][:, :slots]  # [D, slots]
            residual += np.square(x - x @ principal @ principal.T).sum()
            total += np.square(x).sum()
        np.testing.assert_allclose(variances[slots], residual / total, rtol=1e-4, atol=1e-9)
    assert variances[0] == 1
    assert (np.diff(variances) <= 0).all()
    np.testing.assert_allclose(variances[6:], 0, atol=1e-9)  # as many directions as the longest target has steps


def test_slots_for_a_tolerance_are_the_fewest_whose_residual_variance_is_within():
    variances = np.array([1.0, 0.4, 0.05, 0.01])
    slots = [future_work.slots_for(variances, tolerance) for tolerance in (1.0, 0.4, 0.1, 0.01, 0.001)]
    assert slots == [0, 1, 2, 3, None]


@pytest.mark.parametrize("shift, share", [(0, 0.5), (1, 0.5), (-1, 0.5), (2, 0)])
def test_the_weight_on_marked_symbols_counts_neighbours(shift, share):
    """A made-up model puts half of its weight `shift` positions after the marked symbol, half on the first symbol."""

    class Model:
        def alignments(self, source, target):
            weights = np.zeros([1, target.shape[1], source.shape[1]], np.float32)
            weights[0, :, 0] = weights[0, -1, 0] = 3.0
            for step, mark in enumerate((4, 9)):
                weights[0, step, mark + shift] = 3.0
            return tf.constant(weights)

    vocabulary = Vocabulary(["1", "*1"])
    source = ["1", "1", "1", "1", "*1", "1", "1", "1", "1", "*1", "1", "1"]
    sentences = [Sentences.from_ids([vocabulary.encode(words)]) for words in (source, ["1", "1"])]
    test_set = evaluation.TestSet("made up", *sentences, [""], [""])
    assert future_work.weight_on_marks(Model(), vocabulary, test_set) == pytest.approx(share)


def test_the_fewest_slots_stand_beside_the_predicted_slots(tmp_path, monkeypatch):
    """In the made-up runs, 8 slots suffice, as the residual variance predicts with a tolerance of 0.1."""

    def bleu(config):
        attention = config.model.attention
        return 90.0 if attention["name"] == "memory" and attention["num_slots"] < 8 else 99.0

    monkeypatch.setattr(future_work, "residuals_of", lambda run: np.linspace(1, 0, 9).clip(1e-9))
    output = Output(str(tmp_path), "small")
    future_work.slots(output, made_up("tasks", bleu=bleu))
    for row in rows_of(output):
        assert (row["fewest slots"], row["predicted"], row["error, factor"]) == ("8", "8", "1.0")
        assert row["residual variance (tolerance)"] == "0.1"
