"""Training and evaluation from Python, which do what the commands do."""

import json
import os
import signal

import matplotlib
import numpy as np
import pytest
import tensorflow as tf
import yaml
from helpers.pages import run_block
from helpers.runs import TINY, evaluate

import memattn
from memattn import console
from memattn.errors import ConfigError
from memattn.files import read_csv


@pytest.mark.slow
def test_the_page_trains_evaluates_and_loads_a_run_and_the_process_stays_unchanged(tmp_path, monkeypatch):
    training = {**TINY["training"], "max_steps": 9, "precision": "mixed_bfloat16", "seed": 5}
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "small").write_text(yaml.safe_dump({**TINY, "training": training}))
    names = run_block("memattn.train_model(", tmp_path, monkeypatch, [("max_steps=250", "max_steps=6")])
    before = np.random.get_state()[1].tolist(), matplotlib.get_backend()  # noqa: NPY002
    options = tf.config.optimizer.get_experimental_options()
    rows = [{name: float(value) for name, value in row.items()} for row in read_csv("runs/small/validation.csv")]
    assert names["validations"] == rows
    assert [row["step"] for row in rows] == [3, 6]
    with open("runs/small/eval/valid/result.json", encoding="utf-8") as file:
        assert names["result"].to_json() == json.load(file)
    assert evaluate("runs/small", plots=1)["bleu"] == names["result"].scores["bleu"]
    with pytest.warns(UserWarning, match="tokens are not in the vocabulary"):  # the run knows few symbols
        translations = run_block("memattn.load(", tmp_path, monkeypatch)["translations"]
    assert (len(translations), translations[1]) == (3, "")
    assert before == (np.random.get_state()[1].tolist(), matplotlib.get_backend())  # noqa: NPY002
    assert tf.config.optimizer.get_experimental_options() == options
    assert tf.keras.layers.Dense(3).compute_dtype == "float32"


@pytest.mark.slow
def test_an_interrupted_training_is_resumed_by_the_same_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    say = console.say

    def interrupt_at_first_validation(text, file=None):
        say(text, file)
        if text.startswith("validation at step 3"):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(console, "say", interrupt_at_first_validation)
    with pytest.raises(KeyboardInterrupt):
        memattn.train_model(TINY, "stopped")
    assert [row["step"] for row in memattn.train_model(TINY, tmp_path / "stopped")] == [3, 6]


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (memattn.train_model, ["copy/smal", "run"], "copy/smal: cannot read the config"),
        (memattn.train_model, [{"dta": {}}, "run"], "config: dta: unknown"),
        (memattn.train_model, [TINY, "run", "model.units=4"], "overrides: must be a list of strings, not 'model.units"),
        (memattn.evaluate_model, [["run", "run"]], "output_dir: required for an ensemble"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, monkeypatch, function, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        function(*arguments)
    assert not os.path.exists("run")
