"""Commands work in folders whose names hold blanks, braces and quotes, or that the locale cannot write."""

import os
import subprocess
import sys

import pytest
import yaml
from helpers.repository import ROOT
from helpers.runs import TINY

from memattn import config as configs

pytestmark = pytest.mark.slow

FOLDER_NAME = "d {1} x'"
WORDS = ["a", "man", "rides", "the", "old", "red", "horse", "over", "the", "hill"]


@pytest.fixture
def folder(tmp_path):
    """A folder with an odd name; it holds text, a config, and a sweep whose runs are named by that folder."""
    folder = tmp_path / FOLDER_NAME
    folder.mkdir()
    for name, number in (("train", 40), ("valid", 6)):
        lines = [" ".join(WORDS[i % 9 :] + WORDS[: (i * 5) % 9]) for i in range(number)]
        for side in ("en", "de"):
            (folder / f"{name}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tree = configs.apply_changes(TINY, {"data": {"folder": str(folder / "data"), "num_buckets": 1}})
    (folder / "config.yaml").write_text(yaml.safe_dump(tree))
    tree["sweep"] = {"grid": {"data.folder": [str(folder / "data")]}}
    (folder / "sweep.yaml").write_text(yaml.safe_dump(tree))
    return folder


@pytest.mark.long
def test_all_commands_work_in_an_odd_folder(folder, command):
    def run(module, *arguments):
        """Runs a command without errors; returns its output."""
        status, stdout, stderr = command(folder, f"memattn.{module}", *arguments)
        assert status == 0, stderr
        assert "unreadable" not in stderr
        return stdout

    pairs = [f"--train={folder}/train", f"--valid={folder}/valid", "--source=en", "--target=de", "--bpe_units=20"]
    run("prepare", "parallel", *pairs, f"--folder={folder}/data", "--workers=1")
    run("prepare", "lexicon", f"--folder={folder}/data")
    run_dir = f"--run_dir={folder}/run"
    run("train", f"--config={folder}/config.yaml", run_dir, "--strategy=none")
    resumed = run("train", f"--config={folder}/config.yaml", run_dir, "--strategy=none", "--set=training.max_steps=8")
    assert "resuming from " in resumed
    run("eval", run_dir, f"--source={folder}/valid.en", f"--target={folder}/valid.de", f"--output_dir={folder}/out")
    run("eval", run_dir, "--average=2", f"--set=decoding.lexicon={folder}/data/lexicon.tsv")
    run("translate", run_dir)
    run("export", run_dir, f"--output={folder}/export")


@pytest.mark.long
def test_a_sweep_works_in_an_odd_folder(folder, command):
    pairs = [f"--train={folder}/train", f"--valid={folder}/valid", "--source=en", "--target=de", "--bpe_units=20"]
    status, _, errors = command(folder, "memattn.prepare", "parallel", *pairs, f"--folder={folder}/data", "--workers=1")
    assert status == 0, errors
    flags = [f"--config={folder}/sweep.yaml", f"--sweep_dir={folder}/sweep", "--strategy=none", "--repeats=1"]
    for progress in ("0 done before", "1 done before"):
        status, printed, errors = command(folder, "memattn.sweep", *flags)
        assert status == 0, errors
        assert progress in printed
    assert (folder / "sweep" / "table.csv").read_text().count("\n") == 2


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}


def run_in_ascii(folder, module, *arguments):
    """Runs a command in an ASCII locale; returns its output."""
    command = [sys.executable, "-m", f"memattn.{module}", *arguments]
    environment = {**os.environ, **ASCII}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_locale_does_not_matter_for_names_of_folders(tmp_path):
    (tmp_path / "ä.trees").write_text("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n")
    arguments = ["--train=ä.trees", "--valid=ä.trees", "--folder=d_ü"]
    assert "d_ü" in run_in_ascii(tmp_path, "prepare", "parsing", *arguments)
    assert "vocab.txt" in os.listdir(tmp_path / "d_ü")


@pytest.mark.long
def test_runs_and_sweeps_work_in_any_folder_whatever_the_locale(tmp_path):
    tree = configs.apply_changes(TINY, {"data.folder": "r_ü/data"})
    (tmp_path / "ü.yaml").write_text(yaml.safe_dump({**tree, "sweep": {"grid": {"training.seed": [1]}}}))
    run_in_ascii(tmp_path, "train", "--config=ü.yaml", "--set=sweep=null", "--run_dir=r_ü", "--strategy=none")
    run_in_ascii(tmp_path, "eval", "--run_dir=r_ü", "--repeats=1")
    run_in_ascii(tmp_path, "sweep", "--config=ü.yaml", "--sweep_dir=s_ü", "--strategy=none", "--repeats=1")
    assert {"config.yaml", "eval", "checkpoints"} <= set(os.listdir(tmp_path / "r_ü"))
    assert {"table.csv", "seed=1"} <= set(os.listdir(tmp_path / "s_ü"))
