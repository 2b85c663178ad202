"""The first model: the output that its page prints is that of the committed run, and its commands run."""

import json
import re
import shlex

import pytest
from helpers.repository import ROOT

from memattn.eval import summary
from memattn.files import read_csv
from memattn.runs.result import Result

PAGE = (ROOT / "docs/start/first_model.md").read_text(encoding="utf-8")
RUN = ROOT / "results/first_model"
TINY = [
    "data.copy.train_examples=20",
    "data.copy.valid_examples=8",
    "model.units=8",
    "training.max_steps=2",
    "training.jit_compile=false",
    "decoding.jit_compile=false",
]


def test_the_printed_scores_are_those_of_the_run():
    result = Result.from_json(json.loads((RUN / "result.json").read_text("utf-8")))
    assert f"```text\n{summary(result)}\n" in PAGE
    for row in read_csv(str(RUN / "validation.csv")):
        step, bleu, exact_match = int(row["step"]), float(row["bleu"]), float(row["exact_match"])
        assert f"validation at step {step:,}: BLEU {bleu:.2f}  exact match {exact_match:.1f}%" in PAGE


@pytest.mark.slow
def test_the_commands_run(tmp_path, command):
    text = PAGE.replace("\\\n", "")
    commands = re.findall(r"^(?:echo \"(.*)\" \| )?memattn-(\w+) (.*--run_dir runs/first.*)$", text, flags=re.MULTILINE)
    assert [name for _, name, _ in commands] == ["train", "eval", "translate"]
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    for line, name, arguments in commands:
        overrides = [f"--set={override}" for override in TINY] if name == "train" else []
        status, printed, errors = command(tmp_path, f"memattn.{name}", *shlex.split(arguments), *overrides, stdin=line)
        assert status == 0, errors
        assert printed
