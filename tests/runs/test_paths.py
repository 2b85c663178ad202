"""Names of folders may hold any characters but those of patterns, which are refused."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers.runs import NO_STRATEGY, evaluate

from memattn.errors import ConfigError
from memattn.runs import checkpoints
from memattn.runs.checkpoints import Checkpoint
from memattn.runs.run import BEST, CHECKPOINTS
from memattn.runs.trained import load
from memattn.serving import saved_model
from memattn.training.trainer import train

pytestmark = pytest.mark.slow

FOLDER_NAME = "d{b,c} $(x) %s~'\""


@pytest.mark.long
def test_a_run_trains_evaluates_and_exports_in_a_folder_of_any_name(tiny_config, tmp_path, capsys):
    folder = tmp_path / FOLDER_NAME
    run_dir = str(folder / "run")
    short = {"data.folder": str(folder / "data"), "training.max_steps": 4, "training.keep_checkpoints": 2}
    for steps in (4, 6):
        config = tiny_config({**short, "training.validate_every": 2, "training.max_steps": steps})
        assert train(config, run_dir, NO_STRATEGY) == 0
    assert f"resuming from {run_dir}/checkpoints/step-4\n" in capsys.readouterr().out
    kept = {path.name for path in (folder / "run" / CHECKPOINTS).iterdir()}
    files_of_step = ("index", "data-00000-of-00001")
    assert kept == {"checkpoint", *(f"step-{step}.{suffix}" for step in (4, 6) for suffix in files_of_step)}
    assert len(list((folder / "run" / BEST).iterdir())) == 3
    assert list((folder / "run" / "events").iterdir())
    assert evaluate(run_dir, output_dir=folder / "results")["sentences"] == 12
    averaged = load([run_dir], [], 2)
    assert averaged.checkpoints == [f"{run_dir}/checkpoints/step-{step}" for step in (6, 4)]
    saved_model.export(averaged, str(folder / "export"))
    assert (folder / "export" / "saved_model.pb").exists()


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
    assert checkpoints.listed(folder) == [f"{folder}/step-3", f"{folder}/step-2"]
    shutil.move(folder, tmp_path / "moved")  # paths are relative to the folder
    assert checkpoints.listed(str(tmp_path / "moved"))[0] == str(tmp_path / "moved" / "step-3")
    before = layer.kernel.numpy()
    layer.kernel.assign(0 * layer.kernel)
    assert checkpoints.restore(Checkpoint(layer), str(tmp_path / "moved")) is not None
    np.testing.assert_array_equal(layer.kernel.numpy(), before)
