"""Checkpoints: weights are stored by attribute path, damage is noticed, and those of version 0.2 can be read."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers.files import cut
from helpers.models import make_model
from helpers.repository import ROOT
from helpers.runs import NO_STRATEGY, evaluate

from memattn.errors import RunError
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation.evaluate import read_split
from memattn.runs import checkpoints
from memattn.runs.checkpoints import Checkpoint
from memattn.runs.run import Run
from memattn.runs.trained import load
from memattn.training.progress import Progress
from memattn.training.trainer import Trainer, train


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


class TwoLayers(tf.keras.Model):
    """A model of two layers of the same shape, created in the order of `names`."""

    def __init__(self, names):
        super().__init__()
        for name in names:
            setattr(self, name, [tf.keras.layers.Dense(3, name=f"made_up_{np.random.randint(1 << 30)}")])  # noqa: NPY002
            getattr(self, name)[0].build((None, 3))
        self.same_as_first = self.first
        self.built = True


def test_layers_created_in_another_order_keep_their_weights(tmp_path):
    saved, restored = TwoLayers(["first", "second"]), TwoLayers(["second", "first"])
    path = Checkpoint(saved).trackable.write(str(tmp_path / "step-1"))
    Checkpoint(restored).read(path)
    for name in ("first", "second"):
        expected, kernel = (getattr(model, name)[0].kernel.numpy() for model in (saved, restored))
        np.testing.assert_array_equal(kernel, expected)
    assert sorted(checkpoints.named_weights(saved)) == [
        "first/0/bias",
        "first/0/kernel",
        "second/0/bias",
        "second/0/kernel",
    ]


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


def test_a_checkpoint_of_another_model_does_not_change_weights(tmp_path):
    model, smaller_model = make_model("memory", {"num_slots": 3}), make_model("memory", {"num_slots": 2})
    save(smaller_model, tmp_path, 1)
    before = [weight.numpy() for weight in model.weights]
    with (
        pytest.warns(
            UserWarning,
            match=r"skipped: not of this model: model/attention/.* has shape \[.*2\], not \[.*3\]; was config.yaml",
        ),
        pytest.raises(RunError, match="no checkpoint can be read"),
    ):
        checkpoints.restore(Checkpoint(model), str(tmp_path))
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


def test_a_weight_that_a_checkpoint_lacks_is_named(tmp_path):
    save(make_model("none", {}), tmp_path, 1)
    with (
        pytest.warns(UserWarning, match="skipped: not of this model: model/attention/.* is missing; was config.yaml"),
        pytest.raises(RunError, match="no checkpoint can be read"),
    ):
        checkpoints.restore(Checkpoint(make_model("memory", {"num_slots": 3}, bridge="dense")), str(tmp_path))


def test_a_damaged_checkpoint_restores_neither_weights_nor_progress(tmp_path):
    model, progress = make_model("none", {}), Progress()
    progress.step, progress.finished = 7, "7 steps"
    save(model, tmp_path, 7, progress=progress)
    cut(next(tmp_path.glob("*.data*")))
    restored = Progress()
    with pytest.warns(UserWarning, match="skipped"), pytest.raises(RunError, match="no checkpoint can be read"):
        checkpoints.restore(Checkpoint(model, progress=restored), str(tmp_path))
    assert (restored.step, restored.finished) == (0, "")


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


@pytest.mark.parametrize("content", [b"", b"\xff"])
def test_a_damaged_list_of_checkpoints_loses_none(content, tmp_path):
    model = make_model("none", {})
    save(model, tmp_path, 1)
    (tmp_path / "checkpoint").write_bytes(content)
    save(model, tmp_path, 2)
    assert list(map(checkpoints.step_of, checkpoints.listed(str(tmp_path)))) == [2, 1]


def test_checkpoints_are_known_by_their_names_and_ordered_by_step(tmp_path):
    for name in ("step-100", "step-9", "step-copy", "step-10", "step-10-copy", "other"):
        (tmp_path / f"{name}.index").touch()
    listed = [os.path.basename(path) for path in checkpoints.listed(str(tmp_path))]
    assert listed == ["step-100", "step-10", "step-9"]


def test_progress_keeps_its_defaults_for_keys_that_are_not_stored():
    progress = Progress()
    progress.deserialize('{"step": 7, "seconds": 3}')
    assert (progress.step, progress.seconds, progress.finished) == (7, 3, "")


def test_a_checkpoint_with_a_counter_of_another_type_is_refused_in_one_line(tmp_path):
    """Up to version 0.3, runs in float16 counted the steps since the last change of their loss scale in int32."""
    model, folder = make_model("none", {}), str(tmp_path)
    checkpoints.manager(Checkpoint(model, step=[tf.Variable(0)]), folder, 1).save(1)
    with (
        pytest.warns(UserWarning, match="step-1: checkpoint skipped: .*expected dtype int64 does not equal .* int32"),
        pytest.raises(RunError, match="no checkpoint can be read"),
    ):
        checkpoints.restore(Checkpoint(model, step=[tf.Variable(0, dtype=tf.int64)]), folder)
