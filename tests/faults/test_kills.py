"""kill -9 at any moment loses no more than the steps after the last checkpoint."""

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

EVERY = 5  # steps between checkpoints


def test_killed_at_random_moments_equals_uninterrupted(write_config, tmp_path, times):
    kills = times(short=1, full=100)
    changes = {"training.max_steps": max(60, 8 * EVERY * kills), "training.validate_every": 20}
    config = write_config({**changes, "training.checkpoint_every": EVERY})
    whole, pieces = str(tmp_path / "whole"), str(tmp_path / "pieces")
    finished = run_command("memattn.train", "--config", config, "--run_dir", whole, timeout=1200)
    assert finished.returncode == 0, finished.stderr
    chance, while_writing, reached = random.Random(3), 0, 0
    for kill in range(kills):
        before = latest(pieces)
        process = start(config, pieces)
        while process.poll() is None and latest(pieces) == before:
            time.sleep(0.01)
        assert process.poll() is None, process.communicate()
        if kill % 2 == 0:
            while process.poll() is None and not writing(pieces):
                pass
        else:
            time.sleep(chance.uniform(0, 0.3))
        process.kill()
        while_writing += writing(pieces)
        assert "unreadable" not in process.communicate()[1]
        assert step(latest(pieces)) >= reached  # what was once written is not lost
        reached = step(latest(pieces))
    assert while_writing or kills < 10
    finished = run_command("memattn.train", "--config", config, "--run_dir", pieces, timeout=1200)
    assert finished.returncode == 0, finished.stderr
    assert f"resuming from {latest_name(pieces, reached)}" in finished.stdout
    assert_same_run(whole, pieces)


def start(config, run_dir):
    command = [sys.executable, "-m", "memattn.train", "--config", config, "--run_dir", run_dir]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def writing(run_dir):
    """Whether TensorFlow is at a checkpoint, which it puts together beside its place."""
    return bool(glob.glob(os.path.join(run_dir, "checkpoints", "*temp*")))


def step(path):
    return int(path.rpartition("-")[2]) if path else 0


def latest_name(run_dir, reached):
    return os.path.join(run_dir, "checkpoints", f"step-{reached}")
