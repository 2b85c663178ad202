"""Two worker processes train as one, end together, and resume from the checkpoint of the first."""

import concurrent.futures
import contextlib
import csv
import glob
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest
import tensorflow as tf
from benchmarks.replicas import all_reduced_bytes
from helpers.repository import ROOT
from helpers.runs import NO_STRATEGY, latest, replicas, weights
from helpers.updates import BATCH, three_updates

from memattn import config as run_configs
from memattn import train as command
from memattn.errors import ConfigError, LostWorkerError, RunError
from memattn.runs import run_folder
from memattn.training import distribution
from memattn.training.step import TrainingStep
from memattn.training.trainer import train

pytestmark = pytest.mark.slow


def start(config, run_dir, number=2):
    """So many workers of one training."""
    with contextlib.ExitStack() as sockets:
        free = [sockets.enter_context(socket.socket()) for _ in range(number)]
        for one in free:
            one.bind(("localhost", 0))
        cluster = {"worker": [f"localhost:{one.getsockname()[1]}" for one in free]}
    command = [sys.executable, "-m", "memattn.train", "--config", config, "--run_dir", run_dir]
    return [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(number)
    ]


def stop_after_a_checkpoint(run_dir, workers, number, chance):
    """Signals one of the workers at some moment after a new checkpoint; the seconds that the other takes to end."""
    before = latest(run_dir)
    while latest(run_dir) == before:
        assert all(worker.poll() is None for worker in workers), [worker.communicate() for worker in workers]
        time.sleep(0.05)
    time.sleep(chance.uniform(0, 0.3))
    chosen = chance.randrange(2)
    workers[chosen].send_signal(number)
    sent = time.monotonic()
    ended = [worker.communicate(timeout=60) for worker in workers]
    return time.monotonic() - sent, ended, chosen


def test_two_workers_train_as_two_replicas_whatever_befalls_them(write_config, tmp_path, times):
    steps = {
        "training.max_steps": times(short=40, full=300),
        "training.validate_every": 20,
        "training.checkpoint_every": 5,
    }
    config = write_config({**steps, "training.log_every": 50})
    pieces, chance = str(tmp_path / "pieces"), random.Random(5)

    for _ in range(times(short=0, full=3)):
        workers = start(config, pieces)
        seconds, ended, killed = stop_after_a_checkpoint(pieces, workers, signal.SIGKILL, chance)
        assert seconds < 60
        survivor = 1 - killed
        assert workers[survivor].returncode == 138
        lines = [line for line in ended[survivor][1].splitlines() if line.startswith("error: ")]
        assert len(lines) == 1
        assert lines[0].startswith(f"error: {pieces}: a worker was lost; restart all workers to resume (")
        assert "Traceback" not in ended[survivor][1]

    for _ in range(times(short=0, full=3)):
        workers = start(config, pieces)
        _, ended, _ = stop_after_a_checkpoint(pieces, workers, signal.SIGTERM, chance)
        assert [worker.returncode for worker in workers] == [128 + signal.SIGTERM] * 2
        assert "stopped by SIGTERM at step " in ended[0][0]
        assert ended[1][0] == ""  # the first worker speaks for all

    workers = start(config, pieces)
    ended = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], ended[0][1]
    assert ("resuming from" in ended[0][0]) == bool(times(short=0, full=3))

    whole = str(tmp_path / "whole")
    assert train(run_configs.load(config, []), whole, replicas(2)) == 0
    one, other = weights(pieces), weights(whole)
    assert one.keys() == other.keys()
    for key in one:
        if key.startswith("model"):
            np.testing.assert_allclose(one[key], other[key], rtol=1e-3, atol=1e-4, err_msg=key)
    for row, expected in zip(validations(pieces), validations(whole), strict=True):
        assert (row["step"], row["examples"]) == (expected["step"], expected["examples"])
        assert float(row["bleu"]) == pytest.approx(float(expected["bleu"]), abs=3)


@pytest.mark.parametrize("name", ["memory", "bahdanau"])
def test_devices_and_workers_train_alike(name, write_config, tmp_path, times):
    steps = times(short=None, full=200)
    if steps is None:
        pytest.skip("minutes long: make test-faults has it")
    changes = {"model.attention": {"name": name}, "model.dropout": 0.0}
    data = {"data.copy.train_examples": 500, "data.num_buckets": 2}
    often = {"training.batch_size": 24, "training.log_every": 1, "training.max_steps": steps}
    path = write_config(
        {**changes, **data, **often, "training.validate_every": steps, "training.checkpoint_every": steps}
    )
    config = run_configs.load(path, [])
    for devices in (1, 2, 4):
        assert train(config, str(tmp_path / f"devices={devices}"), replicas(devices)) == 0
    for number in (2, 3):
        workers = start(path, str(tmp_path / f"workers={number}"), number)
        ended = [worker.communicate(timeout=600) for worker in workers]
        assert [worker.returncode for worker in workers] == [0] * number, ended[0][1]
    one = tmp_path / "devices=1"
    assert len(losses(one)) == steps
    for folder in tmp_path.glob("*=*"):
        np.testing.assert_allclose(losses(folder), losses(one), rtol=1e-4, err_msg=folder.name)
        assert [row["examples"] for row in validations(folder)] == [row["examples"] for row in validations(one)]


def test_two_replicas_in_xla_match_one_without():
    (single, alone), (mirrored, together) = (
        three_updates(NO_STRATEGY, BATCH),
        three_updates(replicas(2), BATCH, jit_compile=True),
    )
    np.testing.assert_allclose(alone, together, rtol=1e-4)
    for one, other in zip(single.trainable_variables, mirrored.trainable_variables, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(one), tf.convert_to_tensor(other), rtol=1e-3, atol=1e-4)


def test_a_step_sums_each_gradient_once_over_the_replicas(tiny_config):
    strategy, config = replicas(2), tiny_config()
    with strategy.scope():
        model = run_folder.build_model(config, 10, 5)
        update = TrainingStep(model, config.training, strategy)
    shared, tokens = update._share(np.ones([4, 3], np.int32)), tf.constant(12.0)
    batch = shared, shared, tf.constant([1, 2]), tokens, None  # no teacher
    assert reduced_bytes(update._gradients, *batch) == []
    expected = [all_reduced_bytes(model)] * 2
    assert reduced_bytes(update._apply, update._gradients(*batch), tokens) == expected


def reduced_bytes(function, *arguments):
    """Bytes that each collective operation of a tf.function reduces, in float32."""
    operations = function.get_concrete_function(*arguments).graph.get_operations()
    return [4 * one.inputs[0].shape.num_elements() for one in operations if "Collective" in one.type]


def losses(run_dir):
    """The loss of each step, as TensorBoard has it."""
    (path,) = glob.glob(os.path.join(run_dir, "events", "*"))
    events = [tf.compat.v1.Event.FromString(record) for record in tf.data.TFRecordDataset(path).as_numpy_iterator()]
    values = [value for event in events for value in event.summary.value if value.tag == "train/loss"]
    return [float(tf.make_ndarray(value.tensor)) for value in values]


def validations(run_dir):
    with open(os.path.join(run_dir, "validation.csv"), encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"cluster": {}},
        {"cluster": {"worker": "host:1"}, "task": {"type": "worker", "index": 0}},
        {"cluster": {"worker": ["host:1", "host:2"]}},
        {"cluster": {"worker": ["host:1", "host:2"]}, "task": {"type": "worker", "index": 2}},
        {"cluster": {"worker": ["host:1", "host:2"]}, "task": {"type": "boss", "index": 0}},
        [],
    ],
)
def test_workers_that_are_named_badly_are_refused(told, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps(told))
    with pytest.raises(ConfigError, match="--strategy multi_worker: .*TF_CONFIG"):
        distribution.several_machines()


def test_the_command_knows_the_strategies():
    assert list(distribution.STRATEGIES) == command.STRATEGIES


def test_missing_workers_are_reported(monkeypatch):
    for key in [key for key in os.environ if key == "TF_CONFIG" or key.startswith("SLURM")]:
        monkeypatch.delenv(key)
    with pytest.raises(ConfigError, match="--strategy multi_worker: .*TF_CONFIG"):
        distribution.several_machines()


@pytest.fixture
def workers(monkeypatch):
    """workers(work) calls work(0) of the first worker and work(1) of another; what each returned or raised.

    Their strategies are those numbers, and they meet as real ones do: all wait until all have come.
    """
    barrier, told = threading.Barrier(2, timeout=60), {}

    def summed(rank, value):
        told[rank] = np.array(value(types.SimpleNamespace(replica_id_in_sync_group=rank)), np.float64)
        barrier.wait()
        total = told[0] + told[1]
        barrier.wait()
        return total

    monkeypatch.setattr(distribution, "has_several_workers", lambda strategy: True)
    monkeypatch.setattr(distribution, "is_chief", lambda rank: rank == 0)
    monkeypatch.setattr(distribution, "_sum", summed)

    def run_both(work):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(work, rank) for rank in range(2)]
            return [future.exception() or future.result() for future in futures]

    return run_both


def test_the_first_worker_tells_the_others_what_came_out(workers):
    assert workers(lambda rank: distribution.numbers_of_chief(rank, lambda: [rank + 3.0, 1.0], 2)) == [[3.0, 1.0]] * 2
    assert workers(lambda rank: distribution.on_any_worker(rank, [rank == 1, False])) == [[True, False]] * 2


def test_a_failure_of_the_first_worker_ends_the_others_with_its_status(workers):
    """RunError ends with 1, and no scheduler starts that again."""

    def full_disk():
        raise OSError(28, "No space left on device")

    first, other = workers(lambda rank: distribution.numbers_of_chief(rank, full_disk, 1))
    assert isinstance(first, OSError)
    assert type(other) is RunError
    assert str(other) == "another worker failed; see its output"


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (tf.errors.UnavailableError(None, None, "the peer is gone"), True),
        (tf.errors.InternalError(None, None, "Collective ops is aborted by: connection reset"), True),
        (tf.errors.InternalError(None, None, "Failed to call DoRnnForward: CUDNN_STATUS_EXECUTION_FAILED"), False),
        (tf.errors.ResourceExhaustedError(None, None, "out of memory"), False),
    ],
)
def test_errors_that_another_worker_causes_are_recognized(error, lost, workers):
    with pytest.raises(LostWorkerError if lost else type(error)), distribution.losing_workers(0, "run"):
        raise error


@pytest.mark.parametrize("told_twice", [False, True])
def test_slurm_names_the_workers_where_tf_config_does_not(told_twice, monkeypatch, capsys):
    slurm = {"PROCID": "1", "STEP_NUM_TASKS": "3", "STEP_NODELIST": "node[07-08]", "STEP_TASKS_PER_NODE": "2,1"}
    for key, value in slurm.items():
        monkeypatch.setenv(f"SLURM_{key}", value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if told_twice:
        task = {"type": "worker", "index": 0}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["host:1", "host:2"]}, "task": task}))
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", lambda resolver, options: resolver)
    resolver = distribution.several_machines()
    workers = ["host:1", "host:2"] if told_twice else ["node07:8888", "node07:8889", "node08:8888"]
    assert resolver.cluster_spec().as_dict() == {"worker": workers}
    assert (resolver.task_type, resolver.task_id) == ("worker", 0 if told_twice else 1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ("0,1" if told_twice else "1")
    assert ("waiting for the other workers" in capsys.readouterr().out) == told_twice
