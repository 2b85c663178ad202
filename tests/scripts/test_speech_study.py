"""The tables and pictures of the study on speech recognition."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf
from helpers.studies import make_reproduction, rows_of, run_in_forks, write_study
from studies import runner
from studies.output import Output

from memattn.files import read_csv

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
    - {model.attention: {name: bahdanau}, training.init_from: runs/reproduce/speech.small/bahdanau}
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
        command(tmp_path, "memattn.prepare", "speech", *arguments)

    write_study(tmp_path, "speech", TINY)
    write_study(tmp_path, "speech_person", TUNED)
    run_in_forks(command, tmp_path, monkeypatch)
    reproduction = make_reproduction()
    runner.check(["speech", "speech_person"], "small")
    for target in ("speech", "speech_person"):
        reproduction.make(target)
    assert reproduction.failed == []
    rows = rows_of(Output("results/speech/small", "small"))
    assert [row["model"] for row in rows] == ["Bahdanau", "memory, K = 32"]
    assert all(float(row["CER %, new voices"]) == float(row["CER %"]) > 0 for row in rows)  # equal recordings
    assert [(row["seeds"], row["min-max"]) for row in rows] == [("1", f"{row['CER %']}-{row['CER %']}") for row in rows]
    curves = [(row["run"], row["step"]) for row in read_csv("results/speech/small/learning_curves.csv")]
    assert curves == [("Bahdanau", "2"), ("Bahdanau", "4"), ("memory, K = 32", "2"), ("memory, K = 32", "4")]
    for name in ("learning_curves.png", "attention.png", "memory.png", "memory.svg"):
        assert os.path.getsize(f"results/speech/small/{name}") > 10_000
    (row,) = rows_of(Output("results/speech_person/small", "small"))
    assert row["model"] == "Bahdanau"
    assert row["CER %, a person"] == rows[0]["CER %"] == row["CER %, synthetic voices"]  # equal recordings
    assert float(row["CER %, fine-tuned"]) > 0
    tf.keras.backend.clear_session()
