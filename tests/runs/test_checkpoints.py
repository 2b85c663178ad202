"""Checkpoints: weights are stored by attribute path, in a folder of almost any name; damage is noticed."""

import contextlib
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers.files import cut
from helpers.models import arrays, make_model
from helpers.repository import ROOT
from helpers.runs import NO_STRATEGY, evaluate

from memattn.errors import ConfigError, RunError
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation.evaluate import read_split
from memattn.runs import checkpoints
from memattn.runs.checkpoints import Checkpoint
from memattn.runs.run import Run
from memattn.runs.trained import load
from memattn.training.progress import Progress
from memattn.training.trainer import Trainer, train


@pytest.mark.slow
def test_a_run_of_version_0_2_evaluates_and_resumes_as_in_that_version(tmp_path, monkeypatch):
    """The run was stopped at step 4 of 6. Its config names the data relative to the working directory."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "tests" / "runs" / "version_0_2", "run")
    subprocess.run([sys.executable, ROOT / "scripts" / "convert_old_runs.py", "run"], check=True)
    config = Run("run").config
    assert config.model.attention["name"] == "windowed_memory"
    Trainer(config, "run", NO_STRATEGY)  # writes the data
    assert evaluate("run")["perplexity"] == pytest.approx(7.72437808, rel=1e-4)
    assert train(config, "run", NO_STRATEGY) == 0
    resumed = load(["run"], [], 1)
    assert resumed.checkpoints[0].endswith("step-6")
    result = evaluation.evaluate(resumed, read_split(resumed, "valid"), repeats=1).result
    assert result.scores["perplexity"] == pytest.approx(7.40183182, rel=1e-3)
    names = [name for name, _ in tf.train.list_variables("run/checkpoints/step-6")]
    assert "model/encoder/forward/0/kernel/.ATTRIBUTES/VARIABLE_VALUE" in names
    assert "optimizer/momentum/encoder/forward/0/kernel/.ATTRIBUTES/VARIABLE_VALUE" in names


def test_a_weight_that_no_attribute_leads_to_is_refused():
    layer = tf.keras.layers.Layer()
    layer.add_weight(shape=(2,), name="orphan")
    with pytest.raises(ValueError, match="orphan.*: no attribute"):
        checkpoints.named_weights(layer)


def save(model, folder, *steps, keep=1, **trackables):
    """Saves a checkpoint of a model, and of further trackables, at each step; returns their manager."""
    kept = checkpoints.manager(Checkpoint(model, **trackables), str(folder), keep)
    for step in steps:
        kept.save(step)
    return kept


@contextlib.contextmanager
def skipped(reason=""):
    """Checks that the only checkpoint is skipped for this reason, with a warning."""
    with (
        pytest.warns(UserWarning, match=f"checkpoint skipped: {reason}"),
        pytest.raises(RunError, match="no checkpoint can be read"),
    ):
        yield


def test_a_checkpoint_of_another_model_does_not_change_weights(tmp_path):
    model, smaller_model = make_model("memory", {"num_slots": 3}), make_model("memory", {"num_slots": 2})
    save(smaller_model, tmp_path / "smaller", 1)
    save(make_model("none", {}), tmp_path / "none", 1)
    before = arrays(model)
    with skipped(r"not of this model: model/attention/.* has shape \[.*2\], not \[.*3\]; was config.yaml"):
        checkpoints.restore(Checkpoint(model), str(tmp_path / "smaller"))
    with skipped("not of this model: model/.* is missing; was config.yaml"):
        checkpoints.restore(Checkpoint(model), str(tmp_path / "none"))
    np.testing.assert_equal(arrays(model), before)


@pytest.mark.parametrize("part", ["data-00000-of-00001", "index"])
def test_weights_and_progress_are_those_before_a_damaged_checkpoint(tmp_path, part):
    model, progress = make_model("none", {}), Progress()
    kept = checkpoints.manager(Checkpoint(model, progress=progress), str(tmp_path), 2)
    for progress.step in (6, 7):
        kept.save(progress.step)
    before = arrays(model)
    for weight in model.weights:
        weight.assign(tf.zeros_like(weight))
    cut(tmp_path / f"step-7.{part}")
    with pytest.warns(UserWarning, match="step-7: checkpoint skipped"):
        checkpoints.restore(Checkpoint(model, progress=progress), str(tmp_path))
    assert progress.step == 6
    np.testing.assert_equal(arrays(model), before)


def test_a_checkpoint_that_is_removed_while_it_is_read_gives_way_to_its_successor(tmp_path, monkeypatch):
    model = make_model("none", {})
    kept = save(model, tmp_path, 1)
    read = Checkpoint.read

    def replace_then_read(self, path):
        if path.endswith("step-1"):
            kept.save(2)  # removes the first
        read(self, path)

    monkeypatch.setattr(Checkpoint, "read", replace_then_read)
    assert checkpoints.restore(Checkpoint(model), str(tmp_path)) == str(tmp_path / "step-2")


@pytest.mark.parametrize("content", [None, b"", b"\xff"])
def test_a_lost_or_damaged_list_of_checkpoints_loses_none(content, tmp_path):
    model = make_model("none", {})
    save(model, tmp_path, 1)
    (tmp_path / "checkpoint").unlink()
    if content is not None:
        (tmp_path / "checkpoint").write_bytes(content)
    save(model, tmp_path, 2)
    assert list(map(checkpoints.step_of, checkpoints.newest_first(str(tmp_path)))) == [2, 1]


def test_checkpoints_are_known_by_their_names_and_ordered_by_step(tmp_path):
    for name in ("step-100", "step-9", "step-copy", "step-10", "step-10-copy", "other"):
        (tmp_path / f"{name}.index").touch()
    listed = [os.path.basename(path) for path in checkpoints.newest_first(str(tmp_path))]
    assert listed == ["step-100", "step-10", "step-9"]


def test_progress_keeps_its_defaults_for_keys_that_are_not_stored():
    progress = Progress()
    progress.deserialize('{"step": 7, "seconds": 3}')
    assert (progress.step, progress.seconds, progress.finished) == (7, 3, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["d[1]", "a*", "a?", "a\\b"])
def test_a_folder_that_tensorflow_takes_for_a_pattern_is_refused_before_the_work(name, tiny_config, tmp_path):
    with pytest.raises(ConfigError, match="for a pattern; use another folder"):
        train(tiny_config(), str(tmp_path / name / "run"), NO_STRATEGY)
    assert not (tmp_path / name).exists() and not (tmp_path / "data").exists()


def test_a_folder_keeps_its_last_checkpoints_also_after_a_restart_and_where_it_is_moved(tmp_path):
    layer = tf.keras.layers.Dense(2)
    layer.build([None, 3])
    folder = str(tmp_path / "checkpoints")
    for step in (1, 2, 3):
        kept = checkpoints.manager(Checkpoint(layer), folder, 2)
        assert kept.latest_checkpoint == (None if step == 1 else f"{folder}/step-{step - 1}")
        kept.save(step)
        assert kept.latest_checkpoint == tf.train.latest_checkpoint(folder) == f"{folder}/step-{step}"
    assert checkpoints.newest_first(folder) == [f"{folder}/step-3", f"{folder}/step-2"]
    shutil.move(folder, tmp_path / "moved")  # paths are relative to the folder
    assert checkpoints.newest_first(str(tmp_path / "moved"))[0] == str(tmp_path / "moved" / "step-3")
    before = layer.kernel.numpy()
    layer.kernel.assign(0 * layer.kernel)
    assert checkpoints.restore(Checkpoint(layer), str(tmp_path / "moved")) is not None
    np.testing.assert_array_equal(layer.kernel.numpy(), before)
