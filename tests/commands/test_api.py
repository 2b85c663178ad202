"""Training and evaluation from Python, which do what the commands do."""

import json
import os
import signal

import pytest
import yaml
from helpers.pages import run_block
from helpers.runs import TINY, evaluate

import memattn
from memattn import console
from memattn.errors import ConfigError
from memattn.files import read_csv


@pytest.mark.slow
def test_the_page_trains_and_evaluates_as_the_commands_do(tmp_path, monkeypatch):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "small").write_text(yaml.safe_dump({**TINY, "training": {**TINY["training"], "max_steps": 9}}))
    names = run_block("memattn.train_model(", tmp_path, monkeypatch, [("max_steps=250", "max_steps=6")])
    rows = [{name: float(value) for name, value in row.items()} for row in read_csv("runs/small/validation.csv")]
    assert names["validations"] == rows
    assert [row["step"] for row in rows] == [3, 6]
    with open("runs/small/eval/valid/result.json", encoding="utf-8") as file:
        assert names["result"].to_json() == json.load(file)
    assert evaluate("runs/small")["bleu"] == names["result"].scores["bleu"]


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
    assert evaluate("stopped")["step"] in (3, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("copy/smal", "run"), "copy/smal: cannot read the config"),
        (({"dta": {}}, "run"), "config: dta: unknown"),
        ((TINY, "run", "model.units=4"), "overrides: must be a list of strings, not 'model.units=4'"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        memattn.train_model(*arguments)
    assert not os.path.exists("run")


def test_evaluation_refuses_wrong_arguments(tmp_path):
    with pytest.raises(ConfigError, match="overrides: must be a list of strings"):
        memattn.evaluate_model(str(tmp_path), "valid", "decoding.beam_size=1")
    with pytest.raises(ConfigError, match="output_dir: required for an ensemble"):
        memattn.evaluate_model(["run", "run"])
