"""Several replicas or workers train as one device does, compiled by XLA or not; workers end together and resume."""

import json
import os
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from helpers import neural_gpu
from helpers.models import BATCH, SECOND_BATCH, arrays, padded, three_updates
from helpers.repository import ROOT
from helpers.runs import NO_STRATEGY, assert_close_weights, replicas
from helpers.worker_pair import tf_configs

from memattn import config as run_configs
from memattn import train as command
from memattn.config import TrainingConfig
from memattn.data.vocabulary import EOS
from memattn.errors import ConfigError, LostWorkerError
from memattn.runs.run import Run
from memattn.runs.trained import build_model, load
from memattn.training import distribution
from memattn.training.step import TrainingStep
from memattn.training.trainer import train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("batches", "changes", "tolerance"),
    [
        pytest.param([BATCH[-1:]], {}, 1e-4, id="the second replica has only padding"),
        pytest.param([BATCH], {"jit_compile": True}, 1e-4, id="XLA", marks=pytest.mark.long),
        pytest.param([BATCH, SECOND_BATCH], {}, 1e-4, id="accumulated", marks=pytest.mark.long),
        pytest.param([BATCH], {"precision": "mixed_float16"}, 1e-2, id="float16", marks=pytest.mark.long),
    ],
)
def test_updates_on_two_replicas_equal_those_on_one_device_without_xla(batches, changes, tolerance):
    strategy = replicas(2)
    assert strategy.num_replicas_in_sync == 2
    expected = three_updates(batches, **{**changes, "jit_compile": False})
    np.testing.assert_allclose(three_updates(batches, strategy, **changes), expected, rtol=tolerance)
    assert expected[-1].gradient_norm > 0


def test_a_run_on_two_replicas_equals_a_run_on_one_device(tiny_config, tmp_path):
    config = tiny_config({"model.dropout": 0.0, "training.validate_every": 6})
    runs = {"single": NO_STRATEGY, "mirrored": replicas(2)}
    for name, strategy in runs.items():
        assert train(config, str(tmp_path / name), strategy) == 0
    assert_close_weights(tmp_path / "single", tmp_path / "mirrored", rtol=1e-2)
    ids = padded([[4, 5, 6, EOS], [7, EOS]])
    logits = [load([str(tmp_path / name)], [], None).model(ids, ids) for name in runs]  # as evaluation loads them
    np.testing.assert_allclose(*logits, rtol=1e-2, atol=1e-3)
    initial = build_model(config, 8, {"max_source_length": 6})
    assert np.abs(logits[1] - initial(ids, ids)).max() > 0.01  # they have learned


def test_the_diagonal_cell_has_the_same_gradient_on_two_replicas_and_with_padding():
    """The kernels are large, so that many sums are saturated. The short rows go to the second replica."""
    rows = padded([[4, 5, 6, 7, EOS], [8, 4, 7, 5, EOS], [6, EOS], [EOS]]).numpy()
    expected = _change(NO_STRATEGY, rows)
    for strategy, padding in ((replicas(2), 0), (NO_STRATEGY, 4)):
        for change, wanted in zip(_change(strategy, np.pad(rows, [(0, 0), (0, padding)])), expected, strict=True):
            np.testing.assert_allclose(change, wanted, atol=1e-5 * np.abs(wanted).max())


def _change(strategy, batch):
    """Returns the change of each weight by an update of gradient descent with rate 1."""
    with strategy.scope():
        model = neural_gpu.make_model("neural_gpu", "dngpu", width=1)
        config = TrainingConfig(batch_size=4, jit_compile=False, clip_norm=1e9, optimizer="sgd")
        step = TrainingStep(model, config, strategy)
    for weight in model.trainable_variables:
        weight.assign(np.array(tf.convert_to_tensor(weight)) * 6)
    before = arrays(model)
    step([(batch, batch)], 0, 1.0)
    return [old - new for old, new in zip(before, arrays(model), strict=True)]


@pytest.mark.long
def test_two_workers_train_as_two_replicas(write_config, tmp_path):
    steps = {"training.max_steps": 40, "training.validate_every": 20, "training.checkpoint_every": 5}
    config = write_config({**steps, "training.log_every": 50})
    command = [sys.executable, "-m", "memattn.train", "--config", config, "--run_dir", tmp_path / "workers"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    workers = [
        subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TF_CONFIG": tf_config}, **pipes)
        for tf_config in tf_configs()
    ]
    outputs = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs[0][1]
    assert outputs[1][0] == ""  # the first worker speaks for all

    assert train(run_configs.load(config, []), str(tmp_path / "replicas"), replicas(2)) == 0
    assert_close_weights(tmp_path / "workers", tmp_path / "replicas")
    for row, expected in zip(
        Run(tmp_path / "workers").validations, Run(tmp_path / "replicas").validations, strict=True
    ):
        assert (row["step"], row["examples"]) == (expected["step"], expected["examples"])
        assert float(row["bleu"]) == pytest.approx(float(expected["bleu"]), abs=3)


def test_a_step_sums_each_gradient_once_over_the_replicas(tiny_config):
    strategy, config = replicas(2), tiny_config({"model.attention": {"name": "none"}, "training.optimizer": "sgd"})
    with strategy.scope():
        model = build_model(config, 10, {"max_source_length": 5})
        update = TrainingStep(model, config.training, strategy)
    shared, tokens = update._divided(np.ones([4, 3], np.int32)), tf.constant(12.0)
    batch = shared, shared, tf.constant([1, 2]), tokens, None  # no teacher
    assert reduced_bytes(update._traced_gradients, *batch) == []
    expected = 4 * (model.count_params() + 2)  # gradients, loss, number of correct tokens
    assert reduced_bytes(update._traced_apply, update._traced_gradients(*batch), tokens) == [expected] * 2


def reduced_bytes(function, *arguments):
    """Returns the bytes of float32 that each collective operation of a tf.function reduces."""
    operations = function.get_concrete_function(*arguments).graph.get_operations()
    collectives = [operation for operation in operations if "Collective" in operation.type]
    return [4 * operation.inputs[0].shape.num_elements() for operation in collectives]


@pytest.mark.parametrize(
    "tf_config",
    [
        None,  # not set
        {"cluster": {"worker": "host:1"}, "task": {"type": "worker", "index": 0}},
        {"cluster": {"worker": ["host:1", "host:2"]}},
        {"cluster": {"worker": ["host:1", "host:2"]}, "task": {"type": "worker", "index": 2}},
    ],
)
def test_a_tf_config_that_does_not_name_the_workers_is_refused(tf_config, monkeypatch, capsys):
    for key in [key for key in os.environ if key == "TF_CONFIG" or key.startswith("SLURM")]:
        monkeypatch.delenv(key)
    if tf_config is not None:
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
    with pytest.raises(ConfigError, match=r"--strategy multi_worker: .*TF_CONFIG or Slurm: .*\w \w"):
        distribution.several_machines()
    assert "waiting" not in capsys.readouterr().out


def test_the_command_offers_all_strategies():
    assert list(distribution.STRATEGIES) == command.STRATEGIES


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (tf.errors.UnavailableError(None, None, "the peer is gone"), True),
        (tf.errors.InternalError(None, None, "Collective ops is aborted by: connection reset"), True),
        (tf.errors.InternalError(None, None, "Failed to call DoRnnForward: CUDNN_STATUS_EXECUTION_FAILED"), False),
        (tf.errors.ResourceExhaustedError(None, None, "out of memory"), False),
    ],
)
def test_errors_that_another_worker_causes_are_recognized(error, lost, tiny_config, monkeypatch):
    monkeypatch.setattr("memattn.training.trainer.Trainer", mock.Mock(side_effect=error))
    strategy = object.__new__(tf.distribute.MultiWorkerMirroredStrategy)
    with pytest.raises(LostWorkerError if lost else type(error)):
        train(tiny_config(), "run", strategy)


@pytest.mark.parametrize("has_tf_config", [False, True])
def test_slurm_names_the_workers_where_tf_config_does_not(has_tf_config, monkeypatch, capsys):
    slurm = {"PROCID": "1", "STEP_NUM_TASKS": "3", "STEP_NODELIST": "node[07-08]", "STEP_TASKS_PER_NODE": "2,1"}
    for key, value in slurm.items():
        monkeypatch.setenv(f"SLURM_{key}", value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if has_tf_config:
        task = {"type": "worker", "index": 0}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["host:1", "host:2"]}, "task": task}))
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", lambda resolver, options: resolver)
    resolver = distribution.several_machines()
    workers = ["host:1", "host:2"] if has_tf_config else ["node07:8888", "node07:8889", "node08:8888"]
    assert resolver.cluster_spec().as_dict() == {"worker": workers}
    assert (resolver.task_type, resolver.task_id) == ("worker", 0 if has_tf_config else 1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ("0,1" if has_tf_config else "1")
    assert ("waiting for the other workers" in capsys.readouterr().out) == has_tf_config
