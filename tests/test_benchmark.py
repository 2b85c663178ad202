"""The benchmarks: all workers get the same work, runs are interleaved, the floor counts what the algebra needs."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

from memattn import benchmark, floor
from memattn.errors import ConfigError

sys.path.insert(0, benchmark.WORKERS)
import worker

WORK = {
    "task": "decode",
    "length": 9,
    "source_lengths": "uniform",
    "examples": 7,
    "batch": 3,
    "units": 4,
    "vocabulary": 9,
}


def test_sources_are_sorted_and_not_empty():
    lengths = benchmark.source_lengths(WORK)
    assert len(lengths) == 7
    assert (np.diff(lengths) <= 0).all()
    assert lengths.min() >= 1
    assert lengths.max() <= 9
    assert set(benchmark.source_lengths({**WORK, "source_lengths": 5})) == {5}
    news = benchmark.source_lengths({**WORK, "source_lengths": "news", "length": 35, "examples": 2169})
    assert news.mean() == pytest.approx(35, abs=1)
    assert news.std() == pytest.approx(35 / 3.67**0.5, abs=1)  # 18: a third of the sentences beyond 17 to 53
    batches = worker.batches(worker.SimpleNamespace(**WORK))
    assert [ids.shape for ids, _ in batches] == [(3, lengths[0]), (3, lengths[3]), (1, lengths[6])]
    for ids, own in batches:
        np.testing.assert_array_equal((ids != worker.PAD).sum(1), own)


def test_every_worker_is_there_and_has_its_environment():
    for system in benchmark.SYSTEMS.values():
        assert os.path.exists(os.path.join(benchmark.WORKERS, f"{system.worker}.py"))
        assert system.worker in benchmark.VARIABLES
    made = (ROOT / "scripts/peers/setup.sh").read_text("utf-8")
    for key in benchmark.VARIABLES:
        assert key == "ours" or f"make_environment {key} " in made


@pytest.mark.parametrize(
    ("attention", "expected"),
    [
        # One source of 3 tokens, 2 steps, beam 2, U = 4, D = 8, V = 10: 4 hypothesis steps.
        # Encoder: 3 tokens * 2 directions * 2 layers * (8 * 16). A step: 4*16 + 8*16 + 4*4 + 4*10.
        ({"name": "none"}, 3 * 4 * 128 + 4 * 248),
        # W_beta and W_alpha, C; folded K * 8 * 20 + 4 * K * 20 = 480 against 4 * (2 * 8 + 8 * 20) = 704.
        ({"name": "memory", "num_slots": 2}, 3 * 4 * 128 + 4 * 248 + 4 * 4 * 2 + 2 * 3 * 8 * 2 + 480),
        # Query, v . tanh, keys once; folded 3 * 8 * 20 + 4 * 3 * 20 = 720 against 4 * (3 * 8 + 160) = 736.
        ({"name": "bahdanau"}, 3 * 4 * 128 + 4 * 248 + 4 * (16 + 12) + 3 * 8 * 4 + 720),
        ({"name": "bahdanau", "cache_keys": False}, 3 * 4 * 128 + 4 * 248 + 4 * (16 + 12) + 2 * 3 * 8 * 4 + 720),
    ],
)
def test_the_floor_counts_by_hand(attention, expected):
    sizes = {"source_lengths": np.array([3]), "steps": 2, "beam_size": 2, "units": 4, "vocabulary": 10}
    assert floor.decoding(attention, **sizes) == expected


def test_a_mechanism_that_the_floor_does_not_count_is_named():
    sizes = {"source_lengths": np.array([3]), "steps": 2, "beam_size": 2, "units": 4, "vocabulary": 10}
    message = r"^model\.attention\.name: what luong takes .* only none, memory, bahdanau$"
    with pytest.raises(ConfigError, match=message):
        floor.decoding({"name": "luong"}, **sizes)


def test_the_floor_without_input_feeding_reads_contexts_once():
    sizes = {"source_lengths": np.array([3]), "steps": 2, "beam_size": 2, "units": 4, "vocabulary": 10}
    attention = {"name": "memory", "num_slots": 2}  # K * 8 * 4 + 4 * K * 4 = 96, not 480
    fed = floor.decoding(attention, **sizes)
    assert floor.decoding(attention, input_feeding=False, **sizes) == fed - 480 + 96


def test_the_rate_of_matrix_products_is_that_of_a_computer():
    assert 1e8 < floor.multiply_adds_per_second(64, 64, 64, seconds=0.05) < 1e15


@pytest.mark.parametrize(
    ("script", "lengths", "systems", "options"),
    [
        ("benchmark_decode", ["3", "5"], ["memattn: Bahdanau"], ["--examples", "4", "--beam_size", "2"]),
        ("benchmark_train", ["4"], ["memattn: memory, K = 32", "memattn: Bahdanau"], ["--batch_size", "2"]),
    ],
)
def test_our_own_systems_are_timed(script, lengths, systems, options, tmp_path):
    options = ["--lengths", ",".join(lengths), "--units", "8", "--repeats", "2", "--jit_compile", "false", *options]
    named = [argument for name in systems for argument in ("--systems", name)]
    places = ["--output", str(tmp_path / "out" / "times"), "--logs", str(tmp_path / "logs")]
    command = [sys.executable, f"scripts/{script}.py", *options, *named, *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    with open(tmp_path / "out" / "times.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["L"], row["system"]) for row in rows] == [(length, name) for length in lengths for name in systems]
    assert all(float(row["seconds"]) > 0 and int(row["peak MiB"]) > 50 for row in rows)
    bahdanau = [row["our Bahdanau / it"] for row in rows if row["system"] == "memattn: Bahdanau"]
    assert bahdanau == ["1.0"] * len(lengths)
    made = json.loads((tmp_path / "out" / "times.json").read_text("utf-8"))
    assert made["repeats"] == 2
    assert set(made["systems"]) == set(systems)
    assert (tmp_path / "out" / "times.png").exists() == (len(lengths) > 1)


def test_a_table_of_the_paper_has_its_ratios(tmp_path):
    systems = ["memattn: memory, K = 64", "memattn: Bahdanau"]
    named = [argument for name in systems for argument in ("--systems", name)]
    places = ["--output", str(tmp_path / "table3"), "--logs", str(tmp_path)]
    small = ["--table", "3", "--examples", "2", "--batch_size", "2", "--repeats", "1", "--jit_compile", "false"]
    command = [sys.executable, "scripts/benchmark_paper.py", *small, *named, *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    with open(tmp_path / "table3.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["paper: Bahdanau / it"] for row in rows] == ["1.23", "1.0"]  # 33.28 s by 27.13 s


def test_help_shows_the_flags_that_benchmarks_share(command):
    status, stdout, _ = command(ROOT, "scripts.benchmark_tokens", "--help")
    assert status == 0
    for flag in ("--beam_size", "--output", "--systems", "--lengths"):
        assert stdout.count(f"  {flag}: ") == 1


def test_a_library_that_is_not_installed_is_named(command, tmp_path):
    places = ["--environments", tmp_path / "none", "--logs", tmp_path, "--output", tmp_path / "times"]
    status, _, stderr = command(ROOT, "scripts.benchmark_train", "--systems", "Joey NMT: Bahdanau", *places)
    assert status == 1
    assert "scripts/peers/setup.sh makes it" in stderr.splitlines()[-1]
