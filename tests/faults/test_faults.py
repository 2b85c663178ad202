"""Trainings that are killed, commands on a full disk, and long runs: nothing is lost, damaged or piled up."""

import functools
import glob
import os
import random
import subprocess
import sys
import time

import pytest
from helpers.files import contents
from helpers.repository import ROOT, run_python
from helpers.runs import NO_STRATEGY, assert_same_run, latest

from memattn.runs.checkpoints import newest_first, step_of
from memattn.runs.run import Run
from memattn.training.trainer import Trainer

SIZE = 16 << 20  # bytes


@pytest.fixture
def disk(tmp_path):
    """A small file system in memory, which nothing else uses."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
    result = subprocess.run(mount, capture_output=True, text=True, check=False)
    if result.returncode:
        problem = result.stderr.splitlines()[0]
        pytest.skip(f"no file system can be mounted here: {problem}; try unshare --map-root-user --mount pytest")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def fill_except(disk, free):
    """Fills a disk except for `free` bytes."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    status = os.statvfs(disk)
    filler.write_bytes(b"x" * max(0, status.f_bavail * status.f_frsize - free))


def repeat_until_it_fits(disk, step, run):
    """Repeats a command until it succeeds, each time with `step` more bytes free.

    Yields the contents of the disk after each failure, which is reported by a single line.
    """
    for number in range(SIZE // step):
        free = number * step
        fill_except(disk, free)
        result = run()
        if not result.returncode:
            assert number > 0  # the disk was full at least once
            return
        outcome = f"{free} bytes free: status {result.returncode}\n{result.stdout}\n{result.stderr}"
        errors = [line for line in result.stderr.splitlines() if "error: " in line]
        assert result.returncode == 1 and len(errors) == 1 and "Traceback" not in result.stderr, outcome
        assert all("No space left on device" in line for line in errors), outcome
        yield contents(disk)


def newest_step(run_dir):
    """The training step of the checkpoint from which a run resumes, 0 before the first."""
    return max(map(step_of, newest_first(Run(run_dir).checkpoints)), default=0)


@pytest.mark.long
def test_training_resumes_once_a_full_disk_has_room(command, disk, write_config, tmp_path, times):
    changes = {"training.max_steps": 8, "training.validate_every": 4, "training.checkpoint_every": 2}
    train = ["memattn.train", f"--config={write_config(changes)}", "--strategy=none"]
    uninterrupted, interrupted = str(tmp_path / "uninterrupted"), str(disk / "run")
    command(tmp_path, *train, f"--run_dir={uninterrupted}")
    room, saved_step = times(short=256, full=4) << 10, 0
    run = functools.partial(command, tmp_path, *train, f"--run_dir={interrupted}", may_fail=True)
    for _ in repeat_until_it_fits(disk, room, run):
        assert newest_step(interrupted) >= saved_step  # no checkpoint is lost
        saved_step = newest_step(interrupted)
    assert_same_run(uninterrupted, interrupted)
    assert not [path for path in contents(interrupted) if "temp" in path or path.endswith(".unfinished")]


@pytest.mark.slow
def test_preparation_succeeds_once_a_full_disk_has_room(command, disk, tmp_path, times):
    for name in ("train.a", "train.b", "valid.a", "valid.b"):
        (tmp_path / name).write_text("der Mann läuft über die Straße .\n" * 400, encoding="utf-8")
    prepare = ["memattn.prepare", "parallel", f"--train={tmp_path / 'train'}", f"--valid={tmp_path / 'valid'}"]
    prepare += ["--source=a", "--target=b", "--bpe_units=20", "--workers=1"]
    command(tmp_path, *prepare, f"--folder={tmp_path / 'uninterrupted'}")
    room = times(short=16, full=4) << 10
    run = functools.partial(command, tmp_path, *prepare, f"--folder={disk / 'data'}", may_fail=True)
    for on_disk in repeat_until_it_fits(disk, room, run):
        assert "data/manifest.json" not in on_disk
    prepared, expected = contents(disk / "data"), contents(tmp_path / "uninterrupted")
    assert prepared.keys() == expected.keys()
    different = [name for name in expected if prepared[name] != expected[name]]
    assert different == ["manifest.json"]  # it holds the command, which names the folder


CHECKPOINT_EVERY = 5  # steps between checkpoints


@pytest.mark.slow
def test_a_run_killed_at_random_moments_equals_an_uninterrupted_one(write_config, tmp_path, times):
    kills = times(short=1, full=100)
    changes = {"training.max_steps": max(60, 8 * CHECKPOINT_EVERY * kills), "training.validate_every": 20}
    config = write_config({**changes, "training.checkpoint_every": CHECKPOINT_EVERY})
    uninterrupted, interrupted = str(tmp_path / "uninterrupted"), str(tmp_path / "interrupted")
    run_python("-m", "memattn.train", "--config", config, "--run_dir", uninterrupted, timeout=1200)
    command = [sys.executable, "-m", "memattn.train", "--config", config, "--run_dir", interrupted]
    chance, kills_while_writing, saved_step = random.Random(3), 0, 0
    for kill in range(kills):
        before = latest(interrupted)
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
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
        assert newest_step(interrupted) >= saved_step  # no checkpoint is lost
        saved_step = newest_step(interrupted)
    assert kills_while_writing or kills < 10
    finished = run_python("-m", "memattn.train", "--config", config, "--run_dir", interrupted, timeout=1200)
    checkpoint = os.path.join(interrupted, "checkpoints", f"step-{saved_step}")
    assert f"resuming from {checkpoint}" in finished.stdout
    assert_same_run(uninterrupted, interrupted)


def is_writing(run_dir):
    """Whether TensorFlow is writing a checkpoint, whose parts are temporary files at first."""
    return bool(glob.glob(os.path.join(run_dir, "checkpoints", "*temp*")))


@pytest.mark.long
def test_neither_memory_nor_traces_grow_with_steps(tiny_config, tmp_path, times):
    steps, validations = times(short=500, full=20_000), times(short=20, full=200)
    interval = steps // validations
    changes = {
        "training.schedule": "linear",
        "training.max_steps": steps,
        "training.validate_every": interval,
        "training.checkpoint_every": interval,
    }
    trainer = Trainer(tiny_config(changes), str(tmp_path / "run"), NO_STRATEGY)
    validate, memory_sizes, trace_counts = trainer.validate, [], []

    def validate_and_measure():
        validate()
        memory_sizes.append(resident_bytes())
        trace_counts.append(traces(trainer.run.training_step) + traces(trainer.run.validation._searcher))

    trainer.validate = validate_and_measure
    assert trainer.train() == 0
    assert len(memory_sizes) == validations
    settled = validations // 10  # validations until caches are filled
    assert memory_sizes[-1] < 1.02 * memory_sizes[settled], memory_sizes[settled:]
    assert set(trace_counts[settled:]) == {trace_counts[settled]}
    assert trace_counts[settled] > 0


def resident_bytes():
    """Returns the resident memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def traces(owner):
    """Returns how often the tf.functions among an object's attributes were traced."""
    functions = [value for value in vars(owner).values() if hasattr(value, "experimental_get_tracing_count")]
    return sum(function.experimental_get_tracing_count() for function in functions)
