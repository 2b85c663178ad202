"""Files get any name that the file system takes; folders that cannot be written are refused before the work."""

import os
from types import SimpleNamespace

import pytest

from memattn import api, files
from memattn import report as report_command
from memattn.data.preparation import commands
from memattn.data.tokenizer import TextSettings
from memattn.reports import examples
from memattn.reports import runs as reported_runs

UNWRITABLE = "/proc"  # even for root


@pytest.mark.parametrize("name", ["a" * 255, f"{'ü' * 127}a", "a", f"{'b' * 250}.yaml"])
def test_a_file_may_have_the_longest_name(tmp_path, name):
    path = tmp_path / name
    for content in ("first", "second"):
        files.write(str(path), content)
        assert path.read_text() == content
    assert os.listdir(tmp_path) == [name]


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


def unexpected(*_, **__):
    pytest.fail("the work began")


def set_flags(monkeypatch, module, **options):
    monkeypatch.setattr(module, "flags", SimpleNamespace(FLAGS=SimpleNamespace(**options)))


def evaluate(monkeypatch):
    monkeypatch.setattr(api, "load", lambda *_: None)
    monkeypatch.setattr(api, "read_split", lambda *_: SimpleNamespace(name="valid"))
    monkeypatch.setattr(api, "evaluate", unexpected)
    api.evaluate_model(UNWRITABLE)


def report(monkeypatch):
    options = {"split": "valid", "set": [], "examples": 10}
    set_flags(monkeypatch, report_command, **options, output=f"{UNWRITABLE}/report.html")
    monkeypatch.setattr(reported_runs, "read", lambda *_: None)
    monkeypatch.setattr(examples, "examples", unexpected)
    report_command._main("run")


def prepare(monkeypatch):
    monkeypatch.setattr(commands, "_LEARNING_FLAGS", ())
    monkeypatch.setattr(commands, "count_lines", unexpected)
    options = SimpleNamespace(folder=f"{UNWRITABLE}/{{pair}}", vocabulary_of=None)
    commands.prepare_text(options, {}, TextSettings("raw", "en", "de"))


@pytest.mark.parametrize("work", [evaluate, report, prepare])
def test_outputs_are_checked_before_the_work(monkeypatch, tmp_path, work):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError) as caught:
        work(monkeypatch)
    assert caught.value.filename.startswith(UNWRITABLE)
