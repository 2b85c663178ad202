"""Two worker processes train as one, end together, and go on from where the first of them wrote a checkpoint."""

import csv
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT
from test_training import latest, weights

from memattn import distribution, train
from memattn.errors import ConfigError


def start(config, run_dir):
    """Two workers of one training."""
    with socket.socket() as one, socket.socket() as other:
        ports = []
        for free in (one, other):
            free.bind(("localhost", 0))
            ports.append(free.getsockname()[1])
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
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
        for i in range(2)
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
        assert lines == [f"error: {pieces}: another worker is lost; start all again: they go on where they were"]
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
    assert ("goes on from" in ended[0][0]) == bool(times(short=0, full=3))

    whole = str(tmp_path / "whole")
    assert train.train(train.configs.load(config, [], train.MECHANISMS), whole, two_replicas()) == 0
    one, other = weights(pieces), weights(whole)
    assert one.keys() == other.keys()
    for key in one:
        if key.startswith("model"):
            np.testing.assert_allclose(one[key], other[key], rtol=1e-3, atol=1e-4, err_msg=key)
    for row, expected in zip(validations(pieces), validations(whole), strict=True):
        assert (row["step"], row["examples"]) == (expected["step"], expected["examples"])
        assert float(row["bleu"]) == pytest.approx(float(expected["bleu"]), abs=3)


def two_replicas():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def validations(run_dir):
    with open(os.path.join(run_dir, "validation.csv"), encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_workers_that_nobody_names_are_asked_for(monkeypatch):
    for key in [key for key in os.environ if key == "TF_CONFIG" or key.startswith("SLURM")]:
        monkeypatch.delenv(key)
    with pytest.raises(ConfigError, match="--strategy multi_worker: neither TF_CONFIG nor Slurm names the workers: "):
        distribution.several_machines()
