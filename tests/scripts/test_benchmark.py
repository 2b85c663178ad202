"""Benchmarks: all systems get the same work, and tables have ratios."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import decode, race, small_devices, systems, tables
from benchmarks.peers import worker
from helpers.repository import ROOT, run_python

from memattn import files

pytestmark = pytest.mark.slow

WORK = {
    "task": "decode",
    "length": 9,
    "source_lengths": "uniform",
    "examples": 7,
    "batch": 3,
    "units": 4,
    "vocabulary": 9,
    "part": 0,
    "parts": 1,
}


def test_sources_have_the_lengths_of_the_work_and_are_sorted_into_batches():
    def lengths_of(**changes):
        return np.array(list(map(len, worker.sources(worker.SimpleNamespace(**{**WORK, **changes})))))

    lengths = lengths_of()
    assert len(lengths) == 7
    assert (np.diff(lengths) <= 0).all()
    assert lengths.min() >= 1
    assert lengths.max() <= 9
    assert set(lengths_of(source_lengths=5)) == {5}
    news = lengths_of(source_lengths="news", length=35, examples=2169)
    assert news.mean() == pytest.approx(35, abs=1)
    assert news.std() == pytest.approx(35 / 3.67**0.5, abs=1)  # 18: a third of the lengths lies outside of 17 to 53
    batches = worker.batches(worker.SimpleNamespace(**WORK))
    assert [ids.shape for ids, _ in batches] == [(3, lengths[0]), (3, lengths[3]), (1, lengths[6])]
    for ids, batch_lengths in batches:
        np.testing.assert_array_equal((ids != worker.PAD).sum(1), batch_lengths)


def test_parts_of_the_work_get_batches_in_turn():
    batches = worker.batches(worker.SimpleNamespace(**WORK))
    parts = [worker.batches(worker.SimpleNamespace(**{**WORK, "part": part, "parts": 2})) for part in (0, 1)]
    in_turn = [parts[0][0], parts[1][0], parts[0][1]]
    for (expected, _), (ids, _) in zip(batches, in_turn, strict=True):
        np.testing.assert_array_equal(expected, ids)


def test_every_system_has_a_worker_and_an_environment():
    setup = (ROOT / "scripts/benchmarks/peers/setup.sh").read_text("utf-8")
    for each in (system.worker for system in systems.SYSTEMS.values()):
        assert (race.PEERS / f"{each.name}.py").exists()
        assert each.is_ours or f"make_environment {each.name} " in setup


@pytest.mark.parametrize("threads", [1, 3])
def test_the_processes_of_a_system_share_its_threads(threads, tmp_path, monkeypatch):
    """Each process of Marian has one thread: several would divide a batch into parts with different length limits."""
    sizes = {"examples": 9, "batch_size": None, "source_length": None, "beam_size": 2, "threads": threads}
    options = SimpleNamespace(**sizes, environments=str(tmp_path), logs=str(tmp_path), device="cpu")
    works = []
    monkeypatch.setattr(race.subprocess, "Popen", lambda command, **_: works.append(json.loads(command[-1])))
    for name, processes in (("Joey NMT: Bahdanau", min(threads, 2)), ("Marian: Bahdanau", threads)):
        folder = tmp_path / systems.SYSTEMS[name].worker.name / "bin"
        folder.mkdir(parents=True)
        (folder / "python").touch()
        works.clear()
        race._start(name, decode._work(name, 5, options), options)
        assert [work["part"] for work in works] == list(range(processes))
        assert sum(work["threads"] for work in works) == threads
        assert sum(len(ids) for work in works for ids, _ in worker.batches(SimpleNamespace(**WORK | work))) == 9


def test_a_worker_warms_up_by_decoding_all_of_its_work():
    code = (
        "import worker\n"
        "work, decoded = worker.options(), []\n"
        "def decode(ids, lengths):\n"
        "    decoded.append(len(ids))\n"
        "    print('what a library prints', decoded)\n"
        "    return worker.np.full((len(ids), work.length), worker.UNK)\n"
        "worker.serve_decoding(work, {}, '', decode)\n"
        "assert decoded == [3, 3, 1] * 2, decoded\n"
    )
    result = run_python("-c", code, json.dumps(WORK), folder=race.PEERS, input="run\n")
    ready, reply = map(json.loads, result.stdout.splitlines())
    assert ready == {"versions": {}, "notes": ""}
    assert reply["seconds"] > 0


def conditions_of(table):
    return json.loads((table.parent / "conditions.json").read_text("utf-8"))[table.name]


def test_a_table_of_several_measurements_replaces_the_rows_of_one(tmp_path, monkeypatch):
    options = SimpleNamespace(output=str(tmp_path / "decode"), measurement=None)
    monkeypatch.setattr(tables, "conditions", lambda: {"device": "TPU"})
    tables.store(options, [{"L": 7, "seconds": 6.0}], title="T", repeats=1)
    for options.measurement, device, rows in (
        ("first", "CPU", [{"L": 5, "seconds": 1.0}]),
        ("second", "GPU", [{"L": 5, "seconds": 2.0, "fold s": 3}]),
        ("first", "CPU", [{"L": 5, "seconds": 4.0}, {"L": 9, "seconds": 5.0}]),
    ):
        monkeypatch.setattr(tables, "conditions", lambda device=device: {"device": device})
        tables.store(options, rows, title="T", repeats=len(rows))
    path = str(tmp_path / "decode.csv")
    assert [row["device"] for row in files.read_csv(path)] == ["TPU", "GPU", "CPU", "CPU"]
    assert tables.measured_rows(path, "decode") == [{"L": "7", "seconds": "6.0"}]
    assert tables.measured_rows(path, "second") == [{"L": "5", "seconds": "2.0", "fold s": "3"}]
    assert tables.measured_rows(path, "first") == [{"L": "5", "seconds": "4.0"}, {"L": "9", "seconds": "5.0"}]
    assert [conditions_of(tmp_path / name)["repeats"] for name in ("first", "second")] == [2, 1]


def test_conditions_have_the_notes_of_each_length():
    rows = [{"system": "A", "L": length, "notes": f"batch {batch}"} for length, batch in ((20, 8), (50, 8), (100, 2))]
    table, notes = tables.without_notes([*rows, {"system": "B", "L": 20, "notes": ""}])
    assert notes == {"A": ["batch 8", "batch 2"], "B": [""]}
    assert table[0] == {"system": "A", "L": 20}


@pytest.fixture
def measure(command, tmp_path):
    """measure(name, systems, options...) times tiny models; returns the rows of the table, and the caption."""

    def run_benchmark(name, systems, *options):
        small = ["--repeats", "2", "--jit_compile", "false", "--threads", "1", "--batch_size", "2"]
        paths = ["--output", tmp_path / "out" / "times"]
        if name != "tokens":  # all its models are in one process
            paths += ["--logs", tmp_path / "logs"]
        timed = [argument for system in systems for argument in ("--systems", system)]
        command(ROOT, "scripts.benchmark", name, *small, *paths, *timed, *options)
        rows = files.read_csv(str(tmp_path / "out" / "times.csv"))
        conditions = conditions_of(tmp_path / "out" / "times")
        assert (conditions["repeats"], conditions["threads"]) == (2, 1)
        assert set(conditions["systems"]) == {row["system"] for row in rows}
        for row in rows:
            shortest, longest = tables.ends(row["min-max"])
            median = row.get("seconds") or row["microseconds per token"]
            assert 0 < 0.99 * shortest <= float(median) <= 1.01 * longest
            assert name == "tokens" or int(row["peak MiB"]) > 50
        return rows, conditions["title"]

    return run_benchmark


def test_decoding_is_timed(measure):
    sizes = ["--lengths", "5", "--units", "8", "--examples", "4", "--beam_size", "2"]
    (row,), caption = measure("decode", ["memattn: Bahdanau"], *sizes)
    assert (row["L"], row["system"], row["speed-up over our Bahdanau"]) == ("5", "memattn: Bahdanau", "1.0")
    assert 0 < float(row["fold s (apart)"]) < float(row["seconds"])
    assert float(row["tokens/s"]) == pytest.approx(4 * 5 / float(row["seconds"]), rel=0.05)
    assert caption.endswith(" 1 threads")


@pytest.mark.long
def test_training_steps_are_timed_beside_bahdanau_attention(measure):
    names = ["memattn: memory, K = 32", "memattn: Bahdanau"]
    rows, caption = measure("train", names, "--lengths", "4", "--units", "8")
    assert [row["system"] for row in rows] == names
    ratio = float(rows[1]["seconds"]) / float(rows[0]["seconds"])
    assert float(rows[0]["speed-up over our Bahdanau"]) == pytest.approx(ratio, rel=0.05, abs=0.02)
    assert rows[1]["speed-up over our Bahdanau"] == "1.0"
    assert caption.startswith("Time of a training step: 8 units, two layers unless notes say otherwise, vocabulary ")


@pytest.mark.long
def test_a_decoder_step_is_timed_and_drawn(measure, tmp_path):
    sizes = ["--lengths", "3,6", "--units", "8", "--beam_size", "2"]
    rows, caption = measure("tokens", ["memattn: Bahdanau"], *sizes)
    assert [row["L"] for row in rows] == ["3", "6"]
    assert caption.startswith("Time to decode one token")
    assert (tmp_path / "out" / "times.png").exists()


@pytest.mark.long
def test_exports_are_timed_beside_the_model_and_hold_no_tensorflow(command, tmp_path):
    pytest.importorskip("onnx")
    names = ["memattn: memory, K = 32", "memattn: memory, K = 32, ONNX", "memattn: memory, K = 32, ONNX int8"]
    sizes = ["--lengths", "5", "--units", "8", "--batch_sizes", "1,3", "--beam_sizes", "2", "--threads", "1"]
    timing = ["--repeats", "2", "--jit_compile", "false", *(part for name in names for part in ("--systems", name))]
    paths = ["--output", tmp_path / "times", "--logs", tmp_path / "logs"]
    result = command(ROOT, "scripts.benchmark", "small_devices", *sizes, *timing, *paths)
    assert "not quality" in result.stdout
    rows = files.read_csv(str(tmp_path / "times.csv"))
    assert [(row["batch"], row["system"]) for row in rows] == [(batch, name) for batch in "13" for name in names]
    for row in rows:
        shortest, longest = tables.ends(row["min-max"])
        assert 0 < 0.99 * shortest <= float(row["seconds"]) <= 1.01 * longest
    model, *exports = (int(row["peak MiB"]) for row in rows[:3])
    assert max(exports) < model / 2


def test_ctranslate2_decodes_few_long_hypotheses_at_once():
    def together(worker, length):
        return small_devices.decoded_together(worker, 64, 5 * length, SimpleNamespace(threads=2))

    assert [together(systems.CT2, length) for length in (1, 25, 200)] == [64, 12, 2]
    assert together(systems.MARIAN, 200) == 64


@pytest.mark.long
def test_a_table_of_the_paper_shows_the_ratios_of_the_paper(measure):
    names = ["memattn: memory, K = 64", "memattn: Bahdanau", "memattn: windowed memory, K = 32"]
    rows, caption = measure("paper", names, "--table", "3", "--examples", "2")
    assert [row["paper: speed-up over Bahdanau"] for row in rows] == ["1.23", "1.0", ""]  # 33.28 s / 27.13 s
    assert caption.startswith("Table 3: decode time of 2 sources (scaled down from 2,169): ")


@pytest.mark.parametrize(
    ("name", "sizes", "tokens"),
    [
        ("decode", ["--lengths", "20,200"], "3,268"),
        ("paper", ["--lengths", "20,200"], "3,302"),
        ("small_devices", ["--lengths", "25", "--beam_sizes", "1", "--batch_sizes", "1,128"], "3,200"),
    ],
)
def test_a_selection_that_does_not_fit_a_length_is_refused_before_anything_is_measured(command, name, sizes, tokens):
    arguments = ["--systems", "memattn: memory, K = 32, selection", "--vocabulary", "16000", "--units", "8", *sizes]
    result = command(ROOT, "scripts.benchmark", name, *arguments, may_fail=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"batches of fewer source tokens, not {tokens}" in result.stderr


def test_a_library_that_is_not_installed_is_named(command, tmp_path):
    paths = ["--environments", tmp_path / "none", "--logs", tmp_path, "--output", tmp_path / "times"]
    arguments = ["train", "--systems", "Joey NMT: Bahdanau", *paths]
    result = command(ROOT, "scripts.benchmark", *arguments, may_fail=True)
    assert result.returncode == 1
    assert "scripts/benchmarks/peers/setup.sh creates it" in result.stderr.splitlines()[-1]


@pytest.mark.long
def test_trained_runs_are_decoded_in_turns_and_their_speed_is_relative_to_the_first(command, write_config, tmp_path):
    for name in ("memory", "bahdanau"):
        path = write_config({"model.attention": {"name": name}, "training.max_steps": 2, "decoding.beam_size": 2})
        command(tmp_path, "memattn.train", "--config", path, "--run_dir", name)
    options = ["--repeats", "3", "--set", "decoding.beam_size=1", "--output", tmp_path / "out" / "times"]
    folders = [tmp_path / "memory", tmp_path / "bahdanau"]
    printed = command(ROOT, "scripts.benchmark", "trained", *folders, *options).stdout
    first, second = files.read_csv(str(tmp_path / "out" / "times.csv"))
    assert (first["run"], second["run"]) == ("memory", "bahdanau")
    assert (first["beam"], first["step"], first["speed-up over the first"]) == ("1", "2", "1.00")
    ratio = float(first["decode s"]) / float(second["decode s"])
    assert float(second["speed-up over the first"]) == pytest.approx(ratio, rel=0.02, abs=0.01)
    assert conditions_of(tmp_path / "out" / "times")["repeats"] == 3
    assert "trained runs in turns, median of 3" in printed
    for wrong in (folders[:1], [folders[0]] * 2, [folders[0], tmp_path / "none"]):
        result = command(ROOT, "scripts.benchmark", "trained", *wrong, *options, may_fail=True)
        assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
