"""Commands work in folders whose names hold blanks, braces and quotes, or that the locale cannot write."""

import pytest
import yaml
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
