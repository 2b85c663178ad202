"""Locks between processes (here threads), files that two of them write, and how processes end."""

import errno
import fcntl
import os
import platform
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from helpers.repository import ROOT, run_command
from helpers.runs import NO_STRATEGY
from helpers.threads import start_thread

from memattn import cli, files, prepare, processes
from memattn.errors import RunError
from memattn.training.step import TrainingStep
from memattn.training.trainer import train

pytestmark = pytest.mark.slow


def test_the_second_process_is_told_which_one_holds_the_lock(tmp_path):
    lock = str(tmp_path / "new" / "lock")
    with processes.locked(lock, "here", "is at work"):
        for _ in range(2):  # being refused must not erase the name
            with (
                pytest.raises(RunError, match=f"^here: process {os.getpid()} on {platform.node()} is at work$"),
                processes.locked(lock, "here", "is at work"),
            ):
                pass
    with processes.locked(lock, "here", "is at work"):
        pass


def test_a_process_that_just_took_a_lock_has_time_to_write_its_name(tmp_path):
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
    path, done = tmp_path / "made", []

    def make():
        with processes.making(str(path), "is making it; waiting", wait=True):
            done.append(path.exists())
            path.touch()

    with processes.making(str(path), "is making it; waiting", wait=True):
        lines = []
        thread = start_thread(make, lambda: lines.append(capfd.readouterr().err) or any(lines))
        assert not done
        path.touch()
    thread.join(20)
    assert done == [True]
    assert "".join(lines) == f"{path}: process {os.getpid()} on {platform.node()} is making it; waiting\n"
    assert os.listdir(tmp_path) == ["made"]


def test_a_lock_stays_where_its_work_failed(tmp_path):
    """Who waits for the file would else hold a lock that others no longer see."""
    with pytest.raises(KeyboardInterrupt), processes.making(str(tmp_path / "made"), "is making it"):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["made.lock"]


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


def test_two_processes_may_write_one_file(tmp_path, monkeypatch):
    path, fsync, overtaken = tmp_path / "file", os.fsync, []

    def overtake(descriptor):
        fsync(descriptor)
        if not overtaken:
            overtaken.append(True)
            files.write(str(path), "theirs")
            assert path.read_text() == "theirs"

    monkeypatch.setattr(os, "fsync", overtake)
    files.write(str(path), "ours")
    assert path.read_text() == "ours"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_and_its_name_are_on_disk(tmp_path, monkeypatch):
    fsync, replace, done = os.fsync, os.replace, []

    def note(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("name") or replace(*paths))
    files.write(str(tmp_path / "file"), "text")
    assert done == ["file", "name", "folder"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask


def test_an_interruption_leaves_nothing_half_written(tmp_path):
    with pytest.raises(KeyboardInterrupt), files.writing(str(tmp_path / "file")) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("name", "status"), [("memattn-train", 130), ("theirs.py", -signal.SIGINT)])
def test_an_interruption_of_the_imports_ends_a_command_with_one_line(tmp_path, name, status):
    """Python would raise KeyboardInterrupt, at which TensorFlow's import aborts; other programs are left alone."""
    program = tmp_path / name
    program.write_text(
        "import memattn.cli, os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept OSError: pass\n"
    )
    command = [sys.executable, str(program)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr == "error: interrupted\n") == (status, status == 130)


def test_only_noise_is_dropped_from_the_output_of_tensorflows_start(tmp_path):
    said = tmp_path / "said"
    said.write_text(
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
        "I0000 00:00:1795372111.399660    6896 port.cc:153] oneDNN custom operations are on.\n"
        "E0000 00:00:1758131045.203198    3722 cuda_dnn.cc:8579] Unable to register cuDNN factory: already registered\n"
        "F0000 00:00:1795372111.399660    6896 cpu_feature_guard.cc:21] this processor lacks AVX\n"
    )
    code = (
        f"import os, pathlib; from memattn import cli; said = pathlib.Path({str(said)!r}).read_bytes()\n"
        "with cli._filtered_stderr(): os.write(2, said)\n"
        "print('after')\n"
        "with cli._filtered_stderr(): os.write(2, b'the last words\\n'); os.abort()"
    )
    done = subprocess.run([sys.executable, "-u", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGABRT, "after\n")
    first, last = done.stderr.splitlines()
    assert first.endswith("this processor lacks AVX")
    assert last == "the last words"


@pytest.mark.parametrize(
    ("program", "is_ours"), [("memattn/train.py", True), ("scripts/reproduce.py", True), ("tests/conftest.py", False)]
)
def test_commands_are_known_by_their_place(monkeypatch, program, is_ours):
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(ROOT / program), raising=False)
    assert cli._is_command() == is_ours


@pytest.mark.parametrize("script", sorted(path.name for path in ROOT.glob("scripts/*.py")))
def test_help_of_a_script_is_printed_without_warnings_or_tensorflow(script):
    command = [sys.executable, "-X", "importtime", f"scripts/{script}", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout
    lines = done.stderr.splitlines()
    assert all(line.startswith("import time:") for line in lines)
    assert not any(line.endswith("| tensorflow") for line in lines)


def test_a_stack_trace_is_printed_on_request():
    arguments = ["memattn.train", "--config", "nowhere.yaml", "--run_dir", "run"]
    line = "error: nowhere.yaml: cannot read the config: No such file or directory\n"
    for value in ("0", "1"):
        failed = run_command(*arguments, env={**os.environ, "MEMATTN_TRACEBACK": value})
        assert failed.returncode == 2
        assert failed.stderr.endswith(line)
        assert ("Traceback (most recent call last):" in failed.stderr) == (value == "1")


def test_the_library_is_imported_without_the_effects_of_a_command():
    """Not even the modules of training change signals or the environment, as memattn.cli does."""
    code = "import sys, memattn.training.trainer, memattn.sweeps.runner; sys.exit('memattn.cli' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_at_work_a_command_is_interrupted_as_any_program(monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda _: cli._end_at_once)
    handlers = []
    monkeypatch.setattr(signal, "signal", lambda *given: handlers.append(given))
    assert cli._guarded(lambda: None) == 0
    assert handlers == [(signal.SIGINT, signal.default_int_handler)]


def test_cores_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    defaults = {}
    for kind in ("DEFINE_integer", "DEFINE_string"):
        monkeypatch.setattr(prepare.flags, kind, lambda name, default, *_, **__: defaults.update({name: default}))
    monkeypatch.setattr(prepare.flags, "register_validator", lambda *_: None)
    prepare._define_text_flags()
    assert processes.cores() == defaults["workers"] == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert processes.cores() == 64


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
