"""Tables of slots per task, distillation and long sources are made of tiny and of made-up runs."""

import numpy as np
import pytest
from helpers.studies import TINY, made_up, rows_of, write_study
from studies import runner
from studies.britz2017 import directions, future_work
from studies.output import Output

pytestmark = pytest.mark.slow

TASKS = """
base: ../../../tiny.yaml
data:
  copy: null
  task: {num_symbols: 3, train_examples: 40, valid_examples: 20}
sweep:
  cells:
    - {data.task.name: reverse, data.task.max_length: 6}
    - {data.task.name: selective_copy, data.task.max_length: 6, data.task.marked: 2}
  grid:
    model.attention: [{name: bahdanau}, {name: memory, num_slots: 2}, {name: nested_memory, num_slots: 4}]
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
TAUGHT = """
base: ../../../tiny.yaml
training: {stop_at_bleu: 95}
sweep:
  cells:
    - {data.copy.max_length: 5}
    - {data.copy.max_length: 5, training.teacher: runs/teachers.small/max_length=5-bahdanau}
"""


@pytest.fixture
def made(tmp_path, monkeypatch, command):
    """made(name) makes a target of tiny runs and returns the rows of its table."""

    def forked(module, name, folder, arguments, processes):
        del name, processes
        return command(tmp_path, module, "--run_dir", folder, *arguments)[0]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner.sweep, "command", forked)
    (tmp_path / "tiny.yaml").write_text(TINY, encoding="utf-8")
    studies = {"tasks": TASKS, "long_sources": LONG_SOURCES, "teachers": TEACHERS, "taught": TAUGHT}
    for kind, text in studies.items():
        write_study(tmp_path, kind, text)
    reproduction = runner.Reproduction("small", runs_dir="runs", results_dir="results", jobs=1, strategy="none")

    def make(name):
        reproduction.make(name)
        assert reproduction.failed == []
        return rows_of(Output(str(tmp_path / "results" / name / "small"), "small"))

    return make


def test_tables_are_made_of_tiny_runs(made, tmp_path, monkeypatch):
    tasks = ["reverse, L = 6", "selective_copy, L = 6, 2 marked"]
    assert [row["task"] for row in made("slots")] == tasks
    assert (tmp_path / "results" / "slots" / "small" / "residuals.png").stat().st_size > 10_000
    assert [(row["task"], row["K"]) for row in made("nested_slots")] == [(task, "2") for task in tasks]
    monkeypatch.setattr(future_work, "LONG_LENGTHS", (6, 30))
    rows = made("long_sources")
    systems = [(row["model"], row["L"]) for row in rows]
    assert systems == [("bahdanau", "6"), ("bahdanau", "30"), ("K=2", "6"), ("K=2", "30")]
    read = [float(row["a step reads, KiB"]) for row in rows]
    assert read[1] > 4 * read[0] and read[3] == read[2] < read[0]
    rows = made("teacher")
    assert [row["of the teacher"] for row in rows] == ["", "encoder and contexts"]
    assert [row["updates of the teacher"] for row in rows] == ["", "4"]


def test_fewest_and_predicted_slots(tmp_path, monkeypatch):
    """As if each task left nothing from its length on, and memory attention needed as many slots."""

    def needed(config):
        return min(8, config.data.task.max_length)

    def bleu(config):
        attention = config.model.attention
        return 90.0 if attention["name"] == "memory" and attention["num_slots"] < needed(config) else 99.0

    runs = made_up("tasks", bleu=bleu)
    monkeypatch.setattr(future_work, "residuals_of", lambda run: np.linspace(1, 0, needed(run.config) + 1).clip(1e-9))
    output = Output(str(tmp_path), "small")
    future_work.slots(output, runs)
    for row in rows_of(output):
        assert row["fewest slots"] == "8"
        tolerance = float(row["share left out (tolerance)"])
        predicted = directions.slots_for(np.linspace(1, 0, 9).clip(1e-9), tolerance)
        assert row["predicted"] == str(predicted)
        assert row["error, factor"] == f"{max(predicted / 8, 8 / predicted):.1f}" == "1.0"


def test_updates_until_a_student_copies(tmp_path):
    runs = made_up("taught", bleu=lambda config: 96.0 if config.training.teacher else 90.0)
    output = Output(str(tmp_path), "small")
    future_work.teacher(output, made_up("teachers", bleu=lambda config: 99.0), runs)
    rows = rows_of(output)
    assert [row["L"] for row in rows] == ["20"] * 3 + ["40"] * 3
    assert [row["of the teacher"] for row in rows[:3]] == ["", "encoder", "encoder and contexts"]
    assert [row["with 95 BLEU"] for row in rows[:3]] == ["0", "3", "3"]
    assert [row["updates, median"] for row in rows[:3]] == ["", "20", "20"]
    assert [row["updates of the teacher"] for row in rows[:3]] == ["", "20", "20"]


def test_a_teacher_in_translation_stands_beside_as_many_updates(tmp_path):
    needed = runner.TARGETS["teacher_translation"].has_part
    alone, taught = (
        [run for run in made_up(kind, bleu=lambda config: config.training.max_steps / 100) if needed(run.config)]
        for kind in ("translation", "taught_translation")
    )
    output = Output(str(tmp_path), "small")
    future_work.teacher_translation(output, alone, taught)
    columns = ("model", "of the teacher", "seeds", "updates", "test BLEU")
    assert [tuple(row[column] for column in columns) for row in rows_of(output)] == [
        ("bahdanau", "", "3", "908", "9.08"),
        ("K=32", "", "3", "908", "9.08"),
        ("K=32", "encoder", "3", "908", "9.08"),
        ("K=32", "encoder and contexts", "3", "908", "9.08"),
        ("K=32", "", "3", "1816", "18.16"),
    ]
