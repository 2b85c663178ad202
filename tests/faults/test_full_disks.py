"""Full disks: a command says so in one line, harms no file, and resumes when there is room."""

import os
import subprocess

import pytest
from helpers.files import contents
from helpers.runs import assert_same_run, latest

pytestmark = pytest.mark.slow

SIZE = 16 << 20  # bytes


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own, in memory."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        problem = done.stderr.splitlines()[0]
        pytest.skip(f"no file system can be mounted here: {problem}; try unshare --map-root-user --mount pytest")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def leave(disk, free):
    """Fills a disk but for so many bytes."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    status = os.statvfs(disk)
    filler.write_bytes(b"x" * max(0, status.f_bavail * status.f_frsize - free))


def until_it_fits(disk, step, do, runs=1):
    """Does something again and again, each time with more room; yields what lay on the disk each time it was full."""
    for number in range(SIZE // step):
        leave(disk, number * step)
        status, stdout, stderr = do()
        if not status:
            assert number  # it was full at least once
            return
        told = f"{number * step} bytes free: status {status}\n{stdout}\n{stderr}"
        errors = [line for line in stderr.splitlines() if "error: " in line]
        assert status == 1 and 1 <= len(errors) <= runs and "Traceback" not in stderr, told
        assert all("No space left on device" in line for line in errors), told
        yield contents(disk)


def test_training_resumes_once_a_full_disk_has_room(command, disk, write_config, tmp_path, times):
    changes = {"training.max_steps": 8, "training.validate_every": 4, "training.checkpoint_every": 2}
    train = ["memattn.train", f"--config={write_config(changes)}", "--strategy=none"]
    whole, pieces = str(tmp_path / "whole"), str(disk / "run")
    assert command(tmp_path, *train, f"--run_dir={whole}")[0] == 0
    room, reached = times(short=256, full=4) << 10, 0
    for _ in until_it_fits(disk, room, lambda: command(tmp_path, *train, f"--run_dir={pieces}")):
        path = latest(pieces)
        step = int(path.rpartition("-")[2]) if path else 0
        assert step >= reached  # what was once written is not lost
        reached = step
    assert_same_run(whole, pieces)
    assert not [path for path in contents(pieces) if "temp" in path or path.endswith(".unfinished")]


def test_evaluation_succeeds_once_a_full_disk_has_room(command, disk, write_config, tmp_path, times):
    assert command(tmp_path, "memattn.train", f"--config={write_config()}", f"--run_dir={tmp_path / 'run'}")[0] == 0
    evaluate = ["memattn.eval", f"--run_dir={tmp_path / 'run'}", "--split=valid", "--repeats=1", "--plot=1"]
    before = contents(tmp_path / "run")
    assert command(tmp_path, *evaluate, f"--output_dir={tmp_path / 'out'}")[0] == 0
    names = contents(tmp_path / "out").keys()
    out = disk / "out"
    for left in until_it_fits(
        disk, times(short=64, full=4) << 10, lambda: command(tmp_path, *evaluate, f"--output_dir={out}")
    ):
        assert {path.removeprefix("out/") for path in left} <= names | {"filler"}
    assert contents(out).keys() == names
    assert contents(tmp_path / "run") == before


def test_preparation_resumes_once_a_full_disk_has_room(command, disk, tmp_path, times):
    for name in ("train.a", "train.b", "valid.a", "valid.b"):
        (tmp_path / name).write_text("der Mann läuft über die Straße .\n" * 400, encoding="utf-8")
    prepare = ["memattn.prepare", "parallel", f"--train={tmp_path / 'train'}", f"--valid={tmp_path / 'valid'}"]
    prepare += ["--source=a", "--target=b", "--bpe_units=20", "--workers=1"]
    assert command(tmp_path, *prepare, f"--folder={tmp_path / 'whole'}")[0] == 0
    for left in until_it_fits(
        disk, times(short=16, full=4) << 10, lambda: command(tmp_path, *prepare, f"--folder={disk / 'data'}")
    ):
        assert "data/manifest.json" not in left
    prepared, whole = contents(disk / "data"), contents(tmp_path / "whole")
    assert prepared.keys() == whole.keys()
    assert [name for name in whole if prepared[name] != whole[name]] == ["manifest.json"]  # it holds the command


def test_a_sweep_resumes_once_a_full_disk_has_room(command, disk, write_config, tmp_path, times):
    room = times(short=None, full=32 << 10)
    if room is None:
        pytest.skip("a minute long: make test-faults has it")
    config = write_config({"sweep": {"grid": {"training.seed": [1, 2]}}})
    sweep = ["memattn.sweep", f"--config={config}", f"--sweep_dir={disk / 'sweep'}", "--split=valid", "--repeats=1"]
    for left in until_it_fits(disk, room, lambda: command(tmp_path, *sweep), runs=2):
        assert left.get("sweep/table.csv", b"whole\nor not\nthere\n").count(b"\n") == 3
    assert len((disk / "sweep" / "table.csv").read_text().splitlines()) == 3
