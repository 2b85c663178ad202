"""Locks between processes (here threads), files that processes write and read, and how processes end."""

import contextlib
import errno
import fcntl
import os
import pathlib
import platform
import re
import subprocess
import threading
import time

import pytest
from helpers.repository import ROOT, run_python

from memattn import files, processes
from memattn.errors import DataError, RunError

RUN = ROOT / "tests/runs/version_0_2"
NO_RUN = "nowhere: no such folder; memattn-train makes run folders"


def test_a_process_that_cannot_get_a_lock_names_its_holder(tmp_path):
    lock = str(tmp_path / "new" / "lock"), "here", "is at work"
    refused = pytest.raises(RunError, match=f"^here: process {os.getpid()} on {platform.node()} is at work$")
    with processes.locked(*lock):
        for _ in range(2):  # the first refusal must not erase the holder's name
            with refused, processes.locked(*lock):
                pass
    with processes.locked(*lock):
        pass


def test_a_process_that_may_wait_waits_for_the_lock(tmp_path, capfd):
    path, existed_once_locked = tmp_path / "result", []

    def make():
        with processes.locked(f"{path}.lock", str(path), "is making it; waiting", wait=True):
            existed_once_locked.append(path.exists())
            path.touch()

    with processes.locked(f"{path}.lock", str(path), "is making it; waiting", wait=True):
        lines, thread, deadline = [], threading.Thread(target=make), time.monotonic() + 20
        thread.start()
        while not any(lines):
            assert thread.is_alive() and time.monotonic() < deadline
            time.sleep(0.01)
            lines.append(capfd.readouterr().err)
        assert not existed_once_locked
        path.touch()
    thread.join(20)
    assert existed_once_locked == [True]
    assert "".join(lines) == f"{path}: process {os.getpid()} on {platform.node()} is making it; waiting\n"
    assert os.listdir(tmp_path) == ["result"]


def test_failed_work_leaves_no_lock_file(tmp_path):
    with pytest.raises(KeyboardInterrupt), processes.locked(str(tmp_path / "lock"), "here", "is making it"):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_lock_stays_exclusive_where_its_file_is_removed_while_a_process_waits_for_it(tmp_path, monkeypatch):
    """The holder's work ends after a second process has opened the file, and before that process locks it."""
    path, flock, holder = str(tmp_path / "result"), fcntl.flock, contextlib.ExitStack()
    holder.enter_context(processes.locked(f"{path}.lock", path, "is making it"))

    def end_then_lock(descriptor, operation):
        monkeypatch.setattr(fcntl, "flock", flock)
        holder.close()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", end_then_lock)
    with processes.locked(f"{path}.lock", path, "is making it"):
        with pytest.raises(RunError, match="is making it"), processes.locked(f"{path}.lock", path, "is making it"):
            pass
        assert os.listdir(tmp_path) == ["result.lock"]
    assert os.listdir(tmp_path) == []


def test_work_continues_on_disks_without_locks(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    for _ in range(2):
        with (
            pytest.warns(UserWarning, match="here: .*lock.*No locks available"),
            processes.locked(str(tmp_path / "lock"), "here", "is at work"),
        ):
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


def test_an_interruption_while_a_file_is_written_leaves_no_file(tmp_path):
    with pytest.raises(KeyboardInterrupt), files.writing(str(tmp_path / "file")) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def imports_tensorflow(lines):
    """Whether lines of `python -X importtime`, which are indented by the depth of an import, name TensorFlow."""
    return any(line.rpartition("|")[2].strip() == "tensorflow" for line in lines)


# These import TensorFlow before they parse flags.
STUDIES = ("adding_problem", "demo", "hard_attention", "subsequence_search", "transformer")


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    sorted(
        str(path.relative_to(ROOT))
        for path in [*ROOT.glob("scripts/*.py"), *ROOT.glob("data/*.py")]
        if path.name not in ("web.py", "debian.py", "recipes.py")
    ),
)
def test_help_of_a_script_is_printed_without_warnings_or_tensorflow(script):
    result = run_python("-X", "importtime", script, "--help")
    assert result.stdout
    lines = result.stderr.splitlines()
    if pathlib.PurePath(script).stem not in STUDIES:
        assert all(line.startswith("import time:") for line in lines)
        assert not imports_tensorflow(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["train", "--config=copy/small"], "--run_dir is missing"),
        (["train", "--run_dir=a"], "--config is missing"),
        (["eval", "--run_dir=a", "--repeats=3.5"], "flag --repeats=3.5: expected an int; see --help"),
        (["eval", "--run_dir=a", "--rouge=3"], "flag --rouge=3: expected true or false; see --help"),
        (["eval", "--run_dir=a", "deeper"], "deeper: not a flag; all arguments are flags, see --help"),
        (["eval", "--run_dir=a", "--split="], "--split is empty; give a value, or leave it out"),
        (
            ["prepare", "parsing", "--train=a,", "--valid=b", "--folder=c"],
            "--train is empty; give a value, or leave it out",
        ),
        (["report", "", "--output=a.html"], "an argument is empty; give a value, or leave it out"),
        (["eval", "--run_dir=a", "--source=b"], "--source and --target: give both"),
        (["eval", "--run_dir=a", "--source=b", "--target=c", "--split=d"], "--source and --target: give both, or a --"),
        (["translate"], "--run_dir is missing"),
        (["train", "--config=nowhere", "--run_dir=a"], "nowhere: cannot read the config: No such file"),
        (["sweep", "--config=nowhere", "--list"], "nowhere: cannot read the config: No such file"),
        (["eval", "--run_dir=nowhere"], NO_RUN),
        (["eval", f"--run_dir={RUN}", "--source=nowhere", "--target=nowhere"], "nowhere: No such file or directory"),
        (["translate", "--run_dir=nowhere"], NO_RUN),
        (["export", "--run_dir=nowhere", "--output=a"], NO_RUN),
        (["export", f"--run_dir={RUN}", f"--output={RUN}"], f"{RUN}: exists; use another --output"),
        (["report", "nowhere", "--output=a.html"], NO_RUN),
        (["report", "--output=a.html"], "give run folders: memattn-report RUN"),
        (["report", "data", "--output=a.html"], "data: not a run folder"),
        (["prepare", "paralel"], "paralel: not a command; give one of parallel, parsing"),
    ],
)
def test_errors_in_flags_folders_and_files_are_reported_before_tensorflow_is_imported(command, problem):
    name, *arguments = command
    program = ["-X", "importtime", "-m", f"memattn.{name}", *arguments]
    result = run_python(*program, may_fail=True, stdin=subprocess.DEVNULL)
    *lines, last = result.stderr.splitlines()
    assert result.returncode in (1, 2)
    assert re.match(f"error: {problem}", last)
    assert not imports_tensorflow(lines)


@pytest.mark.slow
def test_a_stack_trace_is_printed_on_request():
    arguments = ["memattn.train", "--config", "nowhere.yaml", "--run_dir", "run"]
    line = "error: nowhere.yaml: cannot read the config: No such file or directory; shipped configs: "
    for value in ("0", "1"):
        failed = run_python("-m", *arguments, may_fail=True, env={**os.environ, "MEMATTN_TRACEBACK": value})
        assert failed.returncode == 2
        assert failed.stderr.splitlines()[-1].startswith(line)
        assert ("Traceback (most recent call last):" in failed.stderr) == (value == "1")


UNWRITABLE = "/proc"  # even for root


@pytest.mark.parametrize(
    ("content", "kinds", "message"),
    [
        ('{"a": [1, 2', {}, "not JSON: Expecting ',' delimiter"),
        ('{"a": {}}', {"b": int}, "b is missing"),
        ("[1]", {"b": int}, "b is missing"),
        (f'{{"a": "{"x" * 10_000}"}}', {"a": int}, f"a: expected int, not '{'x' * 75} ..."),
    ],
    ids=["cut off", "no such key", "no mapping", "another type"],
)
def test_bad_json_is_refused_with_its_path(content, kinds, message, tmp_path):
    path = tmp_path / "values.json"
    path.write_text(content)
    with pytest.raises(DataError) as refused:
        files.read_json(str(path), kinds)
    assert str(refused.value).startswith(f"{path}: {message}")
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


def test_a_folder_is_made_or_refused_if_no_file_can_be_written_into_it(tmp_path, monkeypatch):
    files.make_folder(str(tmp_path / "a" / "b"))
    monkeypatch.chdir(tmp_path)
    files.make_folder("")
    assert [len(names) for _, *names in os.walk(tmp_path)] == [2, 2, 2]
    assert os.listdir(tmp_path / "a") == ["b"]
    assert not os.listdir(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    for path in (UNWRITABLE, f"{UNWRITABLE}/new", str(tmp_path / "file")):
        with pytest.raises(OSError) as caught:
            files.make_folder(path)
        assert caught.value.filename == path
