"""Sweeps train and evaluate every run once, continue after failures, and write a table."""

import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import tensorflow as tf
from helpers.repository import ROOT
from helpers.runs import made_up_result
from studies.mechanisms import MEMORY_VARIANT

from memattn import config as configs
from memattn import files
from memattn.errors import ConfigError, RunError
from memattn.evaluation import formatting
from memattn.runs.run import Run
from memattn.sweeps import runner as sweep
from memattn.sweeps import tables
from memattn.sweeps.runs import SweepRun, expand_with_changes
from memattn.training.progress import Progress

pytestmark = pytest.mark.slow

CELLS = [{"model.attention.name": "luong", "training.teacher": "nowhere"}, {"model.attention.name": "memory"}]
FAILING = "luong-teacher=nowhere"
RESULT = "eval/valid/result.json"
OPTIONS = {
    "jobs": 2,
    "split": "valid",
    "average": None,
    "repeats": 1,
    "num_plots": 0,
    "strategy": "none",
    "title": "Tiny",
}


def manager(trackable, folder, keep):
    """Returns the manager of a folder's checkpoints, as training makes one."""
    return tf.train.CheckpointManager(trackable, str(folder), keep, checkpoint_name="step")


@pytest.fixture
def load(write_config, monkeypatch):
    """load(cells, changes) returns the tiny config with a sweep; commands run in the repository."""
    monkeypatch.chdir(ROOT)

    def load(cells, changes=None):
        path = write_config({"sweep": {"cells": cells}, "training.max_steps": 3, **(changes or {})})
        return configs.load(path, [])

    return load


@pytest.fixture
def children(monkeypatch):
    """The `Commands` that stand for the trainings and evaluations of sweeps, which draw no pictures."""
    children = Commands()
    monkeypatch.setattr(sweep, "command", children)
    monkeypatch.setattr(tables.plots, "learning_curves", lambda *_: None)
    return children


@pytest.fixture
def run(children, tmp_path):
    """run(config, **options) runs a sweep in the folder `sweep`; returns the names of the runs that failed."""
    return lambda config, **options: sweep.run_sweep(config, str(tmp_path / "sweep"), **{**OPTIONS, **options})


@pytest.fixture
def done(run, capsys):
    """done(config, **options) runs a sweep; returns how many of its runs were done before."""

    def number(config, **options):
        capsys.readouterr()
        assert run(config, **options) == []
        return int(re.search(r"(\d+) done before", capsys.readouterr().out)[1])

    return number


def table(folder):
    return files.read_csv(str(folder / "table.csv"))


def test_a_sweep_trains_and_evaluates_in_processes_and_repeats_only_what_is_missing(load, tmp_path, capsys):
    folder = tmp_path / "sweep"
    assert sweep.run_sweep(load(CELLS), str(folder), **OPTIONS) == [FAILING]
    output = capsys.readouterr()
    assert "2 runs, 0 done before, 2 to do" in output.out
    assert f"\n[0] {FAILING}\n[1] memory\n" in output.out
    assert "[1] validation at step 3" in output.out
    log = folder / FAILING / "log.txt"
    assert f"{FAILING}: training ended with status 2; see {log}: error: training.teacher: " in output.err
    command, *_, error = log.read_text("utf-8").splitlines()
    assert " -m memattn.train --run_dir " in command
    assert "nowhere" in error
    assert not (folder / FAILING / RESULT).exists()

    result = json.loads((folder / "memory" / RESULT).read_text("utf-8"))
    failure, row = table(folder)
    assert (failure["run"], failure["BLEU"]) == (FAILING, "")
    assert failure["failed"].startswith("training ended with status 2: error: training.teacher: ")
    assert (row["run"], row["failed"]) == ("memory", "")
    assert row["BLEU"] == f"{result['bleu']:.2f}"
    assert row["decode s"] == f"{result['decode_seconds']:.3g}"
    assert (row["sentences"], row["best step"], row["steps"]) == ("12", "3", "3")
    markdown = (folder / "table.md").read_text("utf-8").splitlines()
    assert markdown[:2] == ["Tiny", ""]
    assert "paper" not in markdown[2]
    assert [line.split("|")[1].strip() for line in markdown[4:]] == [FAILING, "memory"]
    assert (folder / "learning_curves.png").stat().st_size > 1000

    def modification_times():
        return {path: path.stat().st_mtime_ns for path in folder.glob("*/**/*") if path.is_file()}

    only_finished, before = load(CELLS[1:]), modification_times()
    assert sweep.run_sweep(only_finished, str(folder), **OPTIONS) == []
    assert "1 runs, 1 done before, 0 to do" in capsys.readouterr().out
    assert modification_times() == before
    del row["failed"]
    assert table(folder) == [row]


class Commands:
    """Stands for runner.command: records the calls and writes the files that a real process would leave.

    `most[module]` is the largest number of commands that ran when a command of the module had just started.
    """

    def __init__(self):
        self.failing, self.calls, self.most, self.labels, self.arguments = [], [], {}, {}, {}
        self._running, self._lock = {}, threading.Lock()

    def __call__(self, module, label, folder, arguments, _):
        name = os.path.basename(folder)
        with self._lock:
            self.labels[name] = label
            self.calls.append((module, name))
            self.arguments[module, name] = arguments
            self._running[module] = self._running.get(module, 0) + 1
            self.most[module] = max(self.most.get(module, 0), sum(self._running.values()))
        time.sleep(0.02)
        with self._lock:
            self._running[module] -= 1
        if (module, name) in self.failing:
            return 1
        if module == "memattn.train":
            files.write(f"{folder}/config.yaml", configs.dump(configs.load(arguments[1], [])))
            files.write(f"{folder}/validation.csv", "step,bleu,seconds\n2,12.5,3.5\n4,50.25,7.5\n")
        else:
            flags = dict(zip(arguments[::2], arguments[1::2], strict=True))
            steps = range(int(flags.get("--average", 0)))
            paths = [f"{folder}/checkpoints/step-{step}" for step in steps] or [f"{folder}/best/step-4"]
            result = made_up_result(Run(folder).config, checkpoints=paths, split=flags["--split"])
            results = Run(folder).results_folder(flags["--split"])
            os.makedirs(results, exist_ok=True)
            files.write(f"{results}/result.json", json.dumps(result.to_json()))
        return 0


SEEDS = [{"training.seed": seed} for seed in (1, 2)]
GRID = [{"model.attention.num_slots": slots} for slots in (1, 2, 4, 8)]


def test_trainings_run_at_once_and_evaluations_alone_after_them(load, run, children, tmp_path):
    assert run(load(GRID)) == []
    assert children.most == {"memattn.train": 2, "memattn.eval": 1}
    assert [module for module, _ in children.calls] == ["memattn.train"] * 4 + ["memattn.eval"] * 4
    assert [name for module, name in children.calls[4:]] == [f"num_slots={slots}" for slots in (1, 2, 4, 8)]


def test_a_line_says_how_many_runs_are_done_and_how_long_the_rest_takes(load, run, children, monkeypatch, capsys):
    minutes = itertools.count(0, 60)  # the time is read whenever it is shown
    monkeypatch.setattr(sweep, "time", SimpleNamespace(monotonic=lambda: next(minutes)))
    children.failing = [("memattn.train", "num_slots=1")]
    run(load(GRID[:3]), jobs=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[4 : lines.index("")] == [
        "training: 0 of 3 runs done, 1 running",
        "training: 0 of 3 runs done, 1 failed",
        "training: 0 of 3 runs done, 1 failed, 1 running",
        "training: 1 of 3 runs done, 1 failed  about 01:00 left",
        "training: 1 of 3 runs done, 1 failed, 1 running  about 02:00 left",
        "training: 2 of 3 runs done, 1 failed",
        "evaluation: 0 of 2 runs done, 1 running",
        "evaluation: 1 of 2 runs done  about 01:00 left",
        "evaluation: 1 of 2 runs done, 1 running  about 02:00 left",
        "evaluation: 2 of 2 runs done",
    ]


def test_a_repeated_sweep_runs_only_what_failed(load, run, children, tmp_path, capsys):
    children.failing = [("memattn.train", "num_slots=2"), ("memattn.eval", "num_slots=4")]
    assert run(load(GRID)) == ["num_slots=2", "num_slots=4"]
    assert ("memattn.eval", "num_slots=2") not in children.calls
    errors = capsys.readouterr().err
    assert "num_slots=2: training ended with status 1" in errors
    assert "num_slots=4: evaluation ended with status 1" in errors
    reasons = ["", "training ended with status 1", "evaluation ended with status 1", ""]
    assert [row["failed"] for row in table(tmp_path / "sweep")] == reasons
    children.calls, children.failing = [], ()
    assert run(load(GRID), jobs=1) == []
    names = ["num_slots=2", "num_slots=4"]
    assert children.calls == [(module, name) for module in ("memattn.train", "memattn.eval") for name in names]
    assert [row["run"] for row in table(tmp_path / "sweep")] == [f"num_slots={slots}" for slots in (1, 2, 4, 8)]


def test_a_run_whose_result_is_damaged_is_evaluated_again(load, run, children, tmp_path):
    assert run(load(GRID[:1])) == []
    path = tmp_path / "sweep" / "num_slots=1" / RESULT
    result = json.loads(path.read_text("utf-8"))
    path.write_text("{", encoding="utf-8")
    assert run(load(GRID[:1])) == []
    assert children.calls.count(("memattn.eval", "num_slots=1")) == 2
    assert json.loads(path.read_text("utf-8")) == result


def test_the_error_that_a_failure_names_is_the_last_of_the_last_command(tmp_path):
    log = tmp_path / "log.txt"
    assert sweep.last_error(str(log)) == ""
    log.write_text("$ first\nerror: early\nerror: late\n", encoding="utf-8")
    assert sweep.last_error(str(log)) == ": error: late"
    log.write_text("$ first\nerror: early\n$ second\nkilled\n", encoding="utf-8")
    assert sweep.last_error(str(log)) == ""


@pytest.mark.parametrize(
    ("option", "values", "evaluations"), [("average", (None, 2, 2, 3), 3), ("split", ("test", "valid", "test"), 2)]
)
def test_a_sweep_evaluates_once_for_each_split_and_number_of_averaged_checkpoints(
    option, values, evaluations, load, run, children, monkeypatch
):
    monkeypatch.setattr(sweep.tasks, "SPLITS", ("train", "valid", "test"))
    for value in values:
        assert run(load(GRID[:1]), **{option: value}) == []
    assert children.calls.count(("memattn.eval", "num_slots=1")) == evaluations


def test_a_single_run_gets_the_options_of_the_sweep_and_its_number_in_the_list(load, run, children):
    assert run(load(GRID), repeats=5, num_plots=2, average=3, only=["num_slots=8"]) == []
    arguments = children.arguments["memattn.eval", "num_slots=8"]
    flags = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert flags == {"--repeats": "5", "--plot": "2", "--average": "3", "--split": "valid"}
    assert children.labels == {"num_slots=8": "[3]"}


def test_the_table_is_written_once_cells_that_ran_one_by_one_are_complete(load, run, done, tmp_path):
    config, folder = load(GRID[1:3]), tmp_path / "sweep"
    for only, names in (("num_slots=4", {"num_slots=4"}), ("num_slots=2", {"num_slots=2", "num_slots=4"})):
        assert run(config, only=[only]) == []
        assert {path.name for path in folder.iterdir() if path.is_dir()} == names
        assert not (folder / "table.csv").exists()
    assert done(config) == 2
    assert [row["run"] for row in table(folder)] == ["num_slots=2", "num_slots=4"]


def test_a_result_made_before_the_end_of_training_counts_as_missing(load, done, tmp_path):
    config, run, progress = load(GRID[:1]), tmp_path / "sweep" / "num_slots=1", Progress()
    assert done(config) == 0
    recent = manager(tf.train.Checkpoint(progress=progress), run / "checkpoints", 1)
    best = manager(tf.train.Checkpoint(weight=tf.Variable(1.0)), run / "best", 1)
    best.save(4)
    for finished_by, best_step, expected in (("", 4, 0), ("4 steps", 4, 1), ("4 steps", 6, 0)):
        progress.finished = finished_by
        recent.save(4)
        best.save(best_step)  # the result is of step 4
        assert done(config) == expected


def test_an_average_of_other_checkpoints_than_the_last_counts_as_missing(load, done, tmp_path):
    config, progress = load(GRID[:1]), Progress()
    assert done(config, average=2) == 0  # of step-0 and step-1
    progress.finished = "2 steps"
    recent = manager(tf.train.Checkpoint(progress=progress), tmp_path / "sweep" / "num_slots=1" / "checkpoints", 3)
    for step, expected in ((0, 1), (2, 0)):
        recent.save(step)
        assert done(config, average=2) == expected


def test_a_result_is_no_row_if_its_training_fails_now(load, run, children, tmp_path):
    config, folder = load(GRID[:1]), tmp_path / "sweep"
    assert run(config) == []
    unfinished = tf.train.Checkpoint(progress=Progress())
    manager(unfinished, folder / "num_slots=1" / "checkpoints", 1).save(4)
    children.failing = [("memattn.train", "num_slots=1")]
    assert run(config) == ["num_slots=1"]
    assert table(folder) == [{"run": "num_slots=1", "failed": "training ended with status 1"}]


def test_a_result_of_a_file_named_like_the_split_counts_as_missing(load, done, tmp_path):
    config, path = load(GRID[:1]), tmp_path / "sweep" / "num_slots=1" / RESULT
    assert done(config) == 0
    result = json.loads(path.read_text("utf-8"))
    for split, expected in (("valid", 1), ("other/valid", 0)):
        path.write_text(json.dumps({**result, "split": split}), encoding="utf-8")
        assert done(config) == expected


def test_a_result_of_an_earlier_version_is_kept(load, done, tmp_path):
    """The config of the result lacks a key of a section and an option of the mechanism, which were added later."""
    config, path = load(GRID[:1]), tmp_path / "sweep" / "num_slots=1" / RESULT
    assert done(config) == 0
    result = json.loads(path.read_text("utf-8"))
    training = result["config"]["training"]
    del training["max_bad_steps"], result["config"]["model"]["attention"]["renormalize"]
    for expected in (1, 0):
        path.write_text(json.dumps(result), encoding="utf-8")
        assert done(config) == expected
        training["max_bad_steps"] = 11  # the run has another value, so its result does not count


def made_up_runs(config, scores=None):
    """Finished runs of a sweep, made up; `scores` has the BLEU of each, 30 by default."""
    runs = []
    for number, (name, (run, changes)) in enumerate(expand_with_changes(config).items()):
        bleu = scores[number] if scores else 30.0
        result = made_up_result(run, scores={"bleu": bleu, "sacrebleu": bleu + 1}, decode_seconds=2.0)
        rows = [{"step": "4", "seconds": "60"}]
        runs.append(SweepRun(name, name, run, result, rows, changes))
    return runs


def groups(cells, load):
    """Returns the runs of a sweep that differ only by their seeds: name -> numbers of the runs."""
    runs = made_up_runs(load(cells))
    return {label: list(map(runs.index, group)) for label, group in tables.seed_groups(runs).items()}


def test_groups_of_seeds_have_distinct_names(load):
    slots = "model.attention.num_slots"
    cells = [{slots: 3}, {slots: 3, "training.learning_rate": 0.1}]
    cells += [{slots: 3, "training.seed": 2, "training.learning_rate": 0.1}]
    cells += [{"training.seed": 3, slots: 4}, {slots: 4, "training.seed": 2}, {"training.seed": 3, slots: 3}]
    cells += [{slots: 3, "training.max_steps": 2, "training.seed": 2}, {slots: 3, "training.max_steps": 2}]
    assert groups(cells, load) == {
        "num_slots=3": [0, 5],
        "num_slots=3-learning_rate=0.1": [1, 2],
        "num_slots=4": [3, 4],
        "num_slots=3-max_steps=2": [6, 7],
    }
    named_all = [*SEEDS, {slots: 2, "model.units": 4}, {"data.folder": "all"}]
    assert list(groups(named_all, load)) == ["all", "num_slots=2-units=4", "folder=all"]


@pytest.mark.parametrize("only", [["num_slots=1"], None])
def test_a_second_sweep_of_a_folder_is_refused_but_cells_run_at_the_same_time(load, run, monkeypatch, only):
    config, is_done, nested = load(GRID[:2]), sweep.is_done, []

    def start_a_second_sweep(*arguments):
        if not nested:
            nested.append(True)
            where = "sweep/num_slots=1" if only else "sweep"
            busy = f"{where}: process .* on .* is working on it; wait, or use another --sweep_dir"
            with pytest.raises(RunError, match=busy):
                run(config, only=only)
            if only:
                assert run(config, only=["num_slots=2"]) == []
            else:
                with pytest.raises(RunError, match="sweep/num_slots=2: process "):
                    run(config, only=["num_slots=2"])
        return is_done(*arguments)

    monkeypatch.setattr(sweep, "is_done", start_a_second_sweep)
    assert run(config, only=only) == []


def test_a_missing_split_is_reported_before_anything_is_trained(load, run, tmp_path):
    with pytest.raises(ConfigError, match="data: has no split nope to evaluate on; it has train, valid$"):
        run(load(GRID[:1]), split="nope")
    assert not (tmp_path / "sweep").exists()


def test_a_sweep_lists_its_runs_and_refuses_a_number_beyond_the_last(command):
    arguments = ["memattn.sweep", "--config", "copy/demo"]
    listed = command(ROOT, *arguments, "--list").stdout.splitlines()
    assert listed == ["0\tnone", "1\tmemory-num_slots=8", "2\twindowed_memory-num_slots=8", "3\tbahdanau"]
    result = command(ROOT, *arguments, "--sweep_dir=runs/nowhere", "--cell=9", may_fail=True)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == "error: --cell: 9 is not one of the runs 0 to 3; see --list"


def test_the_folder_of_another_sweep_is_refused(load, run):
    run(load(GRID))
    with pytest.raises(ConfigError, match=r"num_slots=1: .*training\.learning_rate \(0\.01 there, 0\.02 here\)"):
        run(load(GRID, {"training.learning_rate": 0.02}))


CHILD = """
import os, signal, sys, time
from memattn import cli, console

def main(folder):
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    console.say(f"parent {parent}")
    while not stopped:
        console.say("a step")
        time.sleep(0.02)
    console.say("stopped")
    with open(folder + "/checkpoint", "w") as file:
        file.write("complete")
    sys.exit(143)

parent = os.environ.get("MEMATTN_PARENT")
cli.run(main)
"""


@pytest.fixture
def child(tmp_path, monkeypatch):
    """The command line of a module that stands for a training: it writes a checkpoint when it gets SIGTERM."""
    (tmp_path / "child.py").write_text(CHILD, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(tmp_path)]))
    return [sys.executable, "-m", "child", "--", str(tmp_path)]


def test_trainings_of_a_killed_sweep_stop_with_a_checkpoint(child, tmp_path):
    sweep_code = "import os, subprocess, sys, time; environment = {**os.environ, 'MEMATTN_PARENT': str(os.getpid())}; "
    sweep_code += "subprocess.Popen(sys.argv[1:], env=environment, start_new_session=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", sweep_code, *child], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == f"parent {parent.pid}\n"
        parent.kill()
        deadline = time.monotonic() + 20
        while not (tmp_path / "checkpoint").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_process_still_stops_with_a_checkpoint_where_nobody_reads_its_output(child, tmp_path):
    processes = sweep.Processes()
    with open(tmp_path / "errors", "w", encoding="utf-8") as errors:
        process = processes.start(child, errors)
    with process:
        assert next(process.stdout) == f"parent {os.getpid()}\n"
        process.stdout.close()
        time.sleep(0.1)  # the child prints some lines meanwhile
        processes.end()
    assert process.returncode == 143, (tmp_path / "errors").read_text("utf-8")
    assert (tmp_path / "checkpoint").exists()


def test_a_markdown_table_leaves_out_columns_without_values():
    rows = [{"run": "a", "paper": "", "steps": 10}, {"run": "long name", "paper": "", "steps": 2}]
    assert formatting.markdown(rows) == (
        "| run       | steps |\n|-----------|-------|\n| a         | 10    |\n| long name | 2     |\n"
    )


def test_rows_that_differ_only_by_their_seeds_are_averaged(load):
    cells = [{"training.seed": seed, "model.attention.num_slots": slots} for slots in (2, 4) for seed in (1, 2, 3)]
    runs = made_up_runs(load(cells, {"data.copy": None}), (30.0049, 31.0049, 35.0149, 33, 34, 32))
    summary = {row["run"]: row for row in tables.over_seeds(runs)}
    assert summary.keys() == {"num_slots=2", "num_slots=4"}
    assert summary["num_slots=2"]["seeds"] == 3
    means = [(row["BLEU mean"], row["BLEU min-max"], row["sacreBLEU mean"]) for row in summary.values()]
    assert {row["chrF mean"] for row in summary.values()} == {""}
    assert means == [("32.01", "30.00-35.01", "33.01"), ("33.00", "32.00-34.00", "34.00")]
    assert tables.over_seeds([runs[0], runs[3]]) == []
    assert [row["run"] for row in tables.over_seeds(runs[:3])] == ["num_slots=2"]
    assert [row["run"] for row in tables.over_seeds(made_up_runs(load(SEEDS)))] == ["all"]


def test_a_training_that_ended_keeps_its_last_score_in_the_mean_over_seeds():
    ended_early, ended_late, starts_late = {250: 99.0, 300: 100.0}, {250: 20.0, 500: 98.0}, {300: 40.0}
    assert tables.mean_and_range([ended_early, ended_late]) == {
        250: (59.5, 20.0, 99.0),
        300: (60.0, 20.0, 100.0),
        500: (99.0, 98.0, 100.0),
    }
    assert list(tables.mean_and_range([ended_early, ended_late, starts_late])) == [300, 500]
    assert tables.mean_and_range([ended_early, {}]) == {}


def test_pictures_name_runs_in_words(load):
    cells = [
        {"model.attention": {"name": "memory", "num_slots": 2}},
        {"model.attention": {"name": "memory", "num_slots": 4, "encoder_scoring": "softmax"}, "training.seed": 1},
        {"model.attention": {"name": "memory", "num_slots": 4, "encoder_scoring": "sigmoid"}, "training.seed": 1},
        {"model.attention": {"name": "none"}, "training.max_steps": 2},
        {"model": {"kind": "neural_gpu"}},
        {"model.attention": {"name": MEMORY_VARIANT, "num_slots": 2}},
    ]
    assert list(tables.by_name_in_words(tables.seed_groups(made_up_runs(load(cells))))) == [
        "memory, K = 2",
        "encoder_scoring=softmax-memory-num_slots=4-seed=1",
        "encoder_scoring=sigmoid-memory-num_slots=4-seed=1",
        "no attention",
        "Neural GPU",
        "MemoryVariantAttention",
    ]


def test_pictures_tell_runs_of_one_attention_apart_by_their_tasks_and_by_the_options_of_outside_mechanisms(load):
    cells = [{"data.task.name": task, "training.max_steps": 2} for task in ("sort", "reverse")]
    cells += [{"model.attention": {"name": MEMORY_VARIANT, "num_slots": slots}} for slots in (2, 4)]
    runs = made_up_runs(load(cells, {"training.seed": 3}))
    assert list(tables.by_name_in_words(tables.seed_groups(runs))) == [
        "sort-max_steps=2",
        "reverse-max_steps=2",
        "memory_variant-num_slots=2",
        "memory_variant-num_slots=4",
    ]


def test_only_trees_have_columns_of_bracket_scores(load):
    text = made_up_runs(load(SEEDS))
    scores = {"bleu": 30.0, "bracketing_f1": 71.234, "malformed_trees": 0.5}
    trees = [run._replace(result=made_up_result(run.config, scores=scores)) for run in text]
    row = tables.row(trees[0])
    assert "bracket F1 %" not in tables.row(text[0])
    assert (row["bracket F1 %"], row["malformed trees %"]) == ("71.23", "0.50")
    (summary,) = tables.over_seeds(trees)
    assert summary["bracket F1 % mean"] == "71.23"
