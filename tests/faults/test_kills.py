"""A training that is killed at any moment loses no more than the steps after its last checkpoint."""

import glob
import os
import random
import subprocess
import sys
import time

import pytest
from helpers.repository import ROOT, run_command
from helpers.runs import assert_same_run, latest

pytestmark = pytest.mark.slow

CHECKPOINT_EVERY = 5  # steps between checkpoints


def test_a_run_killed_at_random_moments_equals_an_uninterrupted_one(write_config, tmp_path, times):
    kills = times(short=1, full=100)
    changes = {"training.max_steps": max(60, 8 * CHECKPOINT_EVERY * kills), "training.validate_every": 20}
    config = write_config({**changes, "training.checkpoint_every": CHECKPOINT_EVERY})
    uninterrupted, interrupted = str(tmp_path / "uninterrupted"), str(tmp_path / "interrupted")
    finished = run_command("memattn.train", "--config", config, "--run_dir", uninterrupted, timeout=1200)
    assert finished.returncode == 0, finished.stderr
    chance, kills_while_writing, saved_step = random.Random(3), 0, 0
    for kill in range(kills):
        before = latest(interrupted)
        process = start(config, interrupted)
        while process.poll() is None and latest(interrupted) == before:
            time.sleep(0.01)
        assert process.poll() is None, process.communicate()
        if kill % 2 == 0:
            while process.poll() is None and not is_writing(interrupted):
                pass
        else:
            time.sleep(chance.uniform(0, 0.3))
        process.kill()
        kills_while_writing += is_writing(interrupted)
        assert "unreadable" not in process.communicate()[1]
        assert step(latest(interrupted)) >= saved_step  # no checkpoint is lost
        saved_step = step(latest(interrupted))
    assert kills_while_writing or kills < 10
    finished = run_command("memattn.train", "--config", config, "--run_dir", interrupted, timeout=1200)
    assert finished.returncode == 0, finished.stderr
    checkpoint = os.path.join(interrupted, "checkpoints", f"step-{saved_step}")
    assert f"resuming from {checkpoint}" in finished.stdout
    assert_same_run(uninterrupted, interrupted)


def start(config, run_dir):
    """Starts a training; returns its process."""
    command = [sys.executable, "-m", "memattn.train", "--config", config, "--run_dir", run_dir]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def is_writing(run_dir):
    """Whether TensorFlow is writing a checkpoint, whose parts are temporary files at first."""
    return bool(glob.glob(os.path.join(run_dir, "checkpoints", "*temp*")))


def step(path):
    """Returns the training step of a checkpoint, 0 where there is none."""
    return int(path.rpartition("-")[2]) if path else 0
