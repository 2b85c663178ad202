"""A command on a full disk reports it in a single line, harms no file, and resumes once the disk has room."""

import os
import subprocess

import pytest
from helpers.files import contents
from helpers.runs import assert_same_run, latest

pytestmark = pytest.mark.slow

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
        status, stdout, stderr = run()
        if not status:
            assert number > 0  # the disk was full at least once
            return
        outcome = f"{free} bytes free: status {status}\n{stdout}\n{stderr}"
        errors = [line for line in stderr.splitlines() if "error: " in line]
        assert status == 1 and len(errors) == 1 and "Traceback" not in stderr, outcome
        assert all("No space left on device" in line for line in errors), outcome
        yield contents(disk)


@pytest.mark.long
def test_training_resumes_once_a_full_disk_has_room(command, disk, write_config, tmp_path, times):
    changes = {"training.max_steps": 8, "training.validate_every": 4, "training.checkpoint_every": 2}
    train = ["memattn.train", f"--config={write_config(changes)}", "--strategy=none"]
    uninterrupted, interrupted = str(tmp_path / "uninterrupted"), str(disk / "run")
    assert command(tmp_path, *train, f"--run_dir={uninterrupted}")[0] == 0
    room, saved_step = times(short=256, full=4) << 10, 0
    for _ in repeat_until_it_fits(disk, room, lambda: command(tmp_path, *train, f"--run_dir={interrupted}")):
        path = latest(interrupted)
        step = int(path.rpartition("-")[2]) if path else 0
        assert step >= saved_step  # no checkpoint is lost
        saved_step = step
    assert_same_run(uninterrupted, interrupted)
    assert not [path for path in contents(interrupted) if "temp" in path or path.endswith(".unfinished")]


def test_preparation_succeeds_once_a_full_disk_has_room(command, disk, tmp_path, times):
    for name in ("train.a", "train.b", "valid.a", "valid.b"):
        (tmp_path / name).write_text("der Mann läuft über die Straße .\n" * 400, encoding="utf-8")
    prepare = ["memattn.prepare", "parallel", f"--train={tmp_path / 'train'}", f"--valid={tmp_path / 'valid'}"]
    prepare += ["--source=a", "--target=b", "--bpe_units=20", "--workers=1"]
    assert command(tmp_path, *prepare, f"--folder={tmp_path / 'uninterrupted'}")[0] == 0
    room = times(short=16, full=4) << 10
    for on_disk in repeat_until_it_fits(disk, room, lambda: command(tmp_path, *prepare, f"--folder={disk / 'data'}")):
        assert "data/manifest.json" not in on_disk
    prepared, expected = contents(disk / "data"), contents(tmp_path / "uninterrupted")
    assert prepared.keys() == expected.keys()
    different = [name for name in expected if prepared[name] != expected[name]]
    assert different == ["manifest.json"]  # it holds the command, which names the folder
