"""The demo's tables and pictures, from tiny runs that are trained here and times that are made up."""

import shutil

import demo
import pytest
from helpers.studies import run_in_forks

from memattn import files

pytestmark = pytest.mark.slow


def test_the_demo_sums_up_training_and_times_in_two_tables_and_two_pictures(
    tmp_path, monkeypatch, write_config, command, capsys
):
    attentions = [{"name": "none"}, {"name": "windowed_memory", "num_slots": 2}]
    sweep = {"cells": [{"model.attention": attention} for attention in attentions]}
    monkeypatch.setattr(demo, "CONFIG", write_config({"sweep": sweep}))
    run_in_forks(command, tmp_path, monkeypatch)
    folder = tmp_path / "out"
    runs = demo._train(str(folder))
    assert list(runs) == ["no attention", "windowed memory, K = 2"]
    times = [
        {"system": name, "L": length, demo.tokens.MEASURE: seconds, "min-max": "0.5-9"}
        for length, seconds in ((5, "1.5"), (2000, "2.5"))
        for name in runs
    ]
    quality, speed = demo._quality(runs), demo._speed(times)
    assert [row["model"] for row in quality] == [row["model"] for row in speed] == list(runs)
    assert all(row["training steps to 95 BLEU"] == "not reached" for row in quality)
    assert speed[1] == {"model": "windowed memory, K = 2", "S = 5": "1.5", "S = 2,000": "2.5"}
    demo._draw(runs, [{**row, "system": "no attention"} for row in times], str(folder))
    assert (folder / "trade_off.png").stat().st_size > 10_000
    pictures = folder / "windowed_memory-num_slots=2/eval/valid/alignments"
    shutil.rmtree(pictures, ignore_errors=True)  # there is none if all outputs are empty
    pictures.mkdir()
    (pictures / "0.png").write_bytes(b"a picture")
    demo._copy_slots(runs, str(folder))
    assert (folder / "slots.png").read_bytes() == b"a picture"
    assert len(files.read_csv(str(folder / "table.csv"))) == 2
    assert "written to" in capsys.readouterr().out


def test_the_demo_times_models_that_the_benchmark_knows():
    from benchmarks import systems

    from memattn import config as configs
    from memattn.evaluation import styles
    from memattn.sweeps.runs import expand

    for run in expand(configs.load(demo.CONFIG, [])).values():
        assert f"memattn: {styles.words(run.model.attention)}" in systems.SYSTEMS
