"""Locks between processes (here threads), files that two processes write, and how processes end."""

import contextlib
import errno
import fcntl
import os
import platform
import re
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.repository import ROOT, run_command
from helpers.runs import NO_STRATEGY
from helpers.threads import start_thread

from memattn import files, processes
from memattn.data.preparation import commands, parallel
from memattn.data.tokenizer import TextSettings
from memattn.errors import RunError
from memattn.training.step import TrainingStep
from memattn.training.trainer import train

pytestmark = pytest.mark.slow


def test_a_process_that_cannot_get_a_lock_names_its_holder(tmp_path):
    lock = str(tmp_path / "new" / "lock")
    with processes.locked(lock, "here", "is at work"):
        for _ in range(2):  # the first refusal must not erase the holder's name
            with (
                pytest.raises(RunError, match=f"^here: process {os.getpid()} on {platform.node()} is at work$"),
                processes.locked(lock, "here", "is at work"),
            ):
                pass
    with processes.locked(lock, "here", "is at work"):
        pass


def test_a_refusal_waits_until_the_holder_has_written_its_name(tmp_path):
    lock = str(tmp_path / "lock")
    with processes.locked(lock, "here", "is at work"):
        name = Path(lock).read_text()
        Path(lock).write_text("")
        writing = threading.Timer(0.05, Path(lock).write_text, [name])
        writing.start()
        with pytest.raises(RunError, match=f"here: {name} is"), processes.locked(lock, "here", "is at work"):
            pass
        writing.join()


def test_a_process_that_may_wait_waits_for_the_lock(tmp_path, capfd):
    path, existed_once_locked = tmp_path / "result", []

    def make():
        with processes.making(str(path), "is making it; waiting", wait=True):
            existed_once_locked.append(path.exists())
            path.touch()

    with processes.making(str(path), "is making it; waiting", wait=True):
        lines = []
        thread = start_thread(make, lambda: lines.append(capfd.readouterr().err) or any(lines))
        assert not existed_once_locked
        path.touch()
    thread.join(20)
    assert existed_once_locked == [True]
    assert "".join(lines) == f"{path}: process {os.getpid()} on {platform.node()} is making it; waiting\n"
    assert os.listdir(tmp_path) == ["result"]


def test_failed_work_leaves_no_lock_file(tmp_path):
    with pytest.raises(KeyboardInterrupt), processes.making(str(tmp_path / "result"), "is making it"):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_refused_process_leaves_the_lock_file_of_the_holder(tmp_path):
    lock = tmp_path / "lock"
    with processes.locked(str(lock), "here", "is at work"):
        with pytest.raises(RunError), processes.locked(str(lock), "here", "is at work"):
            pass
        assert lock.exists()


def test_a_lock_stays_exclusive_where_its_file_is_removed_while_a_process_waits_for_it(tmp_path, monkeypatch):
    """The holder's work ends after a second process has opened the file, and before that process locks it."""
    path, flock, holder = str(tmp_path / "result"), fcntl.flock, contextlib.ExitStack()
    holder.enter_context(processes.making(path, "is making it"))

    def end_then_lock(descriptor, operation):
        monkeypatch.setattr(fcntl, "flock", flock)
        holder.close()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", end_then_lock)
    with processes.making(path, "is making it"):
        with pytest.raises(RunError, match="is making it"), processes.making(path, "is making it"):
            pass
        assert os.listdir(tmp_path) == ["result.lock"]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_work_continues_on_disks_without_locks(tmp_path, monkeypatch, number):
    def flock(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    for _ in range(2):
        with (
            pytest.warns(UserWarning, match=f"here: .*lock.*{os.strerror(number)}"),
            processes.locked(str(tmp_path / "lock"), "here", "is at work"),
        ):
            pass


def test_a_lock_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(OSError, match="lock"), processes.locked(str(tmp_path / "lock"), "here", "is at work"):
        pass


def test_two_processes_may_write_the_same_file_at_once(tmp_path, monkeypatch):
    path, fsync, descriptors = tmp_path / "file", os.fsync, []

    def write_meanwhile(descriptor):
        fsync(descriptor)
        descriptors.append(descriptor)
        if len(descriptors) == 1:
            files.write(str(path), "second")
            assert path.read_text() == "second"

    monkeypatch.setattr(os, "fsync", write_meanwhile)
    files.write(str(path), "first")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_then_its_name_then_its_folder_are_written_to_disk(tmp_path, monkeypatch):
    fsync, replace, operations = os.fsync, os.replace, []

    def record_fsync(descriptor):
        operations.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", lambda *paths: operations.append("name") or replace(*paths))
    files.write(str(tmp_path / "file"), "text")
    assert operations == ["file", "name", "folder"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask


def test_an_interruption_while_a_file_is_written_leaves_no_file(tmp_path):
    with pytest.raises(KeyboardInterrupt), files.writing(str(tmp_path / "file")) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_an_interruption_while_tensorflow_is_imported_ends_a_command_with_a_single_line(tmp_path):
    (tmp_path / "tensorflow.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    command = [sys.executable, "-c", "from memattn import cli\ncli.run(lambda: 0, tensorflow=True)"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    ended = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (130, "error: interrupted\n")


@pytest.mark.parametrize(
    "script",
    sorted(
        str(path.relative_to(ROOT))
        for path in [*ROOT.glob("scripts/*.py"), *ROOT.glob("data/*.py")]
        if path.name not in ("web.py", "debian.py", "recipes.py")
    ),
)
def test_help_of_a_script_is_printed_without_warnings_or_tensorflow(script):
    command = [sys.executable, "-X", "importtime", script, "--help"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0 and result.stdout
    lines = result.stderr.splitlines()
    assert all(line.startswith("import time:") for line in lines)
    assert not any(line.endswith("| tensorflow") for line in lines)


def test_help_of_a_recipe_lists_flags_of_all_modules():
    command = [sys.executable, "data/multi30k.py", "--help"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(f"  --{name}:" in result.stdout for name in ("download_dir", "folder", "bpe_units"))


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["train", "--config=copy/small"], "--run_dir is missing"),
        (["eval", "--run_dir=a", "--source=b"], "--source and --target: give both"),
        (["translate"], "--run_dir is missing"),
        (["report", "a", "a", "--output=b"], "a: given twice"),
    ],
)
def test_contradictory_flags_are_reported_before_tensorflow_is_imported(command, problem):
    name, *arguments = command
    program = [sys.executable, "-X", "importtime", "-m", f"memattn.{name}", *arguments]
    result = subprocess.run(program, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    *lines, last = result.stderr.splitlines()
    assert result.returncode == 2
    assert re.match(f"error: {problem}", last)
    assert not any(line.endswith("| tensorflow") for line in lines)


@pytest.mark.long
def test_a_stack_trace_is_printed_on_request():
    arguments = ["memattn.train", "--config", "nowhere.yaml", "--run_dir", "run"]
    line = "error: nowhere.yaml: cannot read the config: No such file or directory; shipped configs: "
    for value in ("0", "1"):
        failed = run_command(*arguments, env={**os.environ, "MEMATTN_TRACEBACK": value})
        assert failed.returncode == 2
        assert failed.stderr.splitlines()[-1].startswith(line)
        assert ("Traceback (most recent call last):" in failed.stderr) == (value == "1")


@pytest.mark.long
def test_importing_the_library_does_not_import_the_setup_of_commands():
    """Only memattn.cli changes signals and the environment; not even the modules of training import it."""
    code = "import sys, memattn.training.trainer, memattn.sweeps.runner; sys.exit('memattn.cli' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert processes.cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert processes.cores() == 64


def test_workers_of_a_preparation_default_to_the_cores(tmp_path, monkeypatch):
    class Flags:
        """The flags of a preparation, none of them given."""

        folder, vocabulary_of, workers, max_length = "data", None, None, 200

        def __getitem__(self, name):
            return SimpleNamespace(value=None, present=False)

    def record(splits, settings, folder, workers, *_):
        numbers.append(workers)
        counts = dict.fromkeys(
            ("pairs", "read", "dropped_empty", "dropped_too_long", "source_tokens", "target_tokens"), 1
        )
        return {"counts": {"train": counts}}

    numbers = []
    monkeypatch.setattr(parallel, "prepare", record)
    monkeypatch.setattr(processes, "cores", lambda: 7)
    (tmp_path / "train.en").write_text("a line\n")
    commands.prepare_text(Flags(), {"train": (str(tmp_path / "train.en"), "")}, TextSettings("raw", "en", "de"))
    assert numbers == [7]


def test_an_interrupted_training_ends_with_130_and_resumes(tiny_config, tmp_path, monkeypatch):
    config = tiny_config()
    step = TrainingStep.__call__

    def step_then_interrupt(self, *arguments):
        results = step(self, *arguments)
        os.kill(os.getpid(), signal.SIGINT)
        return results

    with monkeypatch.context() as patched:
        patched.setattr(TrainingStep, "__call__", step_then_interrupt)
        assert train(config, str(tmp_path / "run"), NO_STRATEGY) == 130
    assert train(config, str(tmp_path / "run"), NO_STRATEGY) == 0
