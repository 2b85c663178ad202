"""The tables and pictures of the study on speech recognition."""

import csv
import dataclasses
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from helpers.studies import made_up, rows_of, run_in_forks, write_study
from matplotlib import image
from studies import estimates, runner
from studies.output import Output
from studies.raffel2017 import speech

from memattn.files import write_csv


def made_up_runs():
    """Finished runs of the study; each has a higher CER than the one before."""
    runs = []
    for number, run in enumerate(made_up("speech", bleu=lambda config: 50.0)):
        scores = {"bleu": 50.0, "cer": 10.0 + number, "wer": 20.0 + number}
        rows = [{"step": str(step), "bleu": "1", "seconds": "120", "cer": str(900 / step)} for step in (10, 20)]
        result = dataclasses.replace(run.result, scores=scores)
        runs.append(run._replace(result=result, validations=rows))
    return runs


@pytest.fixture
def decoded(monkeypatch):
    """The overrides with which runs are decoded; the results and alignments are made up."""
    overrides = []

    def load(folders, changes, average):
        del folders, average
        tokenizer = SimpleNamespace(encode=lambda text, side: list(text))
        return SimpleNamespace(changes=changes, tokenizer=tokenizer, models=[None], vocabulary=None)

    def read_split(trained, split):
        assert split == "test"
        matrices = [np.zeros([length, 5], np.float32) for length in (30, 50, 40)]
        lengths = np.array(list(map(len, matrices)))
        source = type("Sources", (), {"lengths": lambda self: lengths, "__getitem__": lambda self, i: matrices[i]})()
        return SimpleNamespace(source=source, references=["ab", "a bcd", "a cat"])

    def evaluate(trained, test_set, *, repeats):
        assert repeats == 1
        overrides.append(tuple(trained.changes))
        result = dataclasses.replace(made_up_runs()[0].result, scores={"cer": 30.0, "wer": 60.0})
        return SimpleNamespace(result=result)

    def align(model, vocabulary, source, index, hypothesis):
        assert (index, hypothesis) == (2, list("a cat"))  # of median length
        weights = np.abs(np.random.RandomState(1).normal(size=(6, 40)))
        labels = list(map(str, range(40)))
        return speech.plots.Alignment(labels, [*hypothesis, "end"], weights, weights[None] / 2)

    monkeypatch.setattr(speech, "load", load)
    monkeypatch.setattr(speech, "read_split", read_split)
    monkeypatch.setattr(speech.plots, "align", align)
    monkeypatch.setattr(speech.evaluation, "evaluate", evaluate)
    return overrides


@pytest.mark.long
def test_the_table_has_error_rates_of_each_model(decoded, tmp_path):
    runs, output = made_up_runs(), Output(str(tmp_path), "small")
    speech.speech(output, runs)
    rows = {row["model"]: row for row in rows_of(output)}
    assert (len(rows), len(runs)) == (14, 24)
    assert ("MoChA, w = 2" in rows) and ("windowed memory, K = 32, read by address" in rows)
    row = rows["Bahdanau"]
    assert (row["seeds"], row["CER %"], row["min-max"], row["WER %"]) == ("3", "11.0", "10.0-12.0", "21.0")
    assert (row["CER %, new voices"], row["WER %, new voices"]) == ("30.0", "60.0")
    assert [name for name, row in rows.items() if row["online decoder"] == "yes"] == [
        "monotonic",
        "MoChA, w = 2",
        "MoChA, w = 8",
        "MAtChA",
    ]
    assert decoded == [("data.folder=data/espeak.unheard",)] * len(runs)
    with open(output.path("learning_curves.csv"), encoding="utf-8") as file:
        curves = list(csv.DictReader(file))
    assert [(row["model"], row["step"], row["validation CER %"]) for row in curves[:2]] == [
        ("Bahdanau", "10", "90.0"),
        ("Bahdanau", "20", "45.0"),
    ]
    for name in ("learning_curves", "attention", "memory", "windowed_memory"):
        assert (image.imread(tmp_path / f"{name}.png")[..., :3].min(-1) < 0.95).mean() > 0.01
        assert (tmp_path / f"{name}.svg").exists()


def test_the_time_of_a_character_is_given_by_frames(monkeypatch, tmp_path):
    def benchmark(output, name, models, arguments):
        lengths = arguments[arguments.index("--lengths") + 1].split(",")
        rows = [
            {"L": length, "system": model, "microseconds per token": number + int(length), "min-max": "1-900"}
            for number, model in enumerate(models)
            for length in lengths
        ]
        write_csv(output.path("table.csv"), [{**row, "background load": 0.1} for row in rows])

    monkeypatch.setattr(Output, "benchmark", benchmark)
    output = Output(str(tmp_path), "small")
    speech.decoder_time(output)
    rows = rows_of(output)
    assert [row["frames"] for row in rows[:5]] == ["100", "200", "500", "1000", "2000"]
    assert (rows[5]["system"], rows[5]["microseconds per token"]) == ("windowed memory by address, K = 32", "26")
    assert (tmp_path / "times.png").stat().st_size > 10_000


TINY = """
data: {folder: data/spoken, source: features, num_buckets: 1}
model:
  layers: 1
  encoder_layers: 2
  encoder_reduce: [2]
  units: 8
  encoder_units: 4
  embedding_size: 8
  bridge: dense
training: {batch_size: 4, max_steps: 4, validate_every: 2, checkpoint_every: 2, metric: cer, jit_compile: false}
decoding: {beam_size: 2, batch_size: 4, max_length: 9, jit_compile: false}
sweep:
  cells:
    - model.attention: {name: bahdanau}
    - model.attention: {name: memory, num_slots: 32}
"""

TUNED = """
base: ../speech/small.yaml
data: {folder: data/spoken.unheard}
training: {max_steps: 2}
sweep:
  cells:
    - {model.attention: {name: bahdanau}, training.init_from: runs/speech.small/bahdanau}
"""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning:soundfile.*")
def test_the_study_is_made_from_recordings(command, tmp_path, monkeypatch):
    soundfile = pytest.importorskip("soundfile")
    sounds = np.random.RandomState(1).normal(0, 0.1, [4, 8_000])
    for split in ("train", "valid", "test", "unheard"):
        (tmp_path / split).mkdir()
        for i, samples in enumerate(sounds):
            soundfile.write(tmp_path / split / f"{i}.wav", samples[: 4_000 + 1_000 * i], 16_000)
        lines = [{"audio": f"{split}/{i}.wav", "text": text} for i, text in enumerate(("a", "b a", "ab", "ba"))]
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    manifests = [f"--{split}={split}.jsonl" for split in ("train", "valid", "test")]
    for arguments in (
        [*manifests, "--folder=data/spoken"],
        ["--vocabulary_of=data/spoken", *manifests[:2], "--test=unheard.jsonl", "--folder=data/spoken.unheard"],
    ):
        status, _, stderr = command(tmp_path, "memattn.prepare", "speech", *arguments)
        assert status == 0, stderr

    write_study(tmp_path, "speech", TINY)
    write_study(tmp_path, "speech_person", TUNED)
    run_in_forks(command, tmp_path, monkeypatch)
    assert "2 runs" in estimates.estimate(["speech"], "small", gigaflops=300)
    assert "configs/studies/speech/small.yaml" in estimates.rehearse(["speech"], "small", steps=1, strategy="none")
    reproduction = runner.Reproduction("small", runs_dir="runs", results_dir="results", jobs=1, strategy="none")
    runner.check(["speech", "speech_person"], "small", "runs")
    for target in ("speech", "speech_person"):
        reproduction.make(target)
    assert reproduction.failed == []
    rows = rows_of(Output("results/speech/small", "small"))
    assert [row["model"] for row in rows] == ["Bahdanau", "memory, K = 32"]
    assert all(float(row["CER %, new voices"]) == float(row["CER %"]) > 0 for row in rows)  # equal recordings
    assert os.path.getsize("results/speech/small/attention.png") > 10_000
    (row,) = rows_of(Output("results/speech_person/small", "small"))
    assert row["model"] == "Bahdanau"
    assert row["CER %, a person"] == rows[0]["CER %"] == row["CER %, synthetic voices"]  # equal recordings
    assert float(row["CER %, fine-tuned"]) > 0
    tf.keras.backend.clear_session()
