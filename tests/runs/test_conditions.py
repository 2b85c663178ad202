"""Provenance of a result: the command that was typed, and the commit of this package."""

import subprocess
import sys

import pytest

from memattn import processes
from memattn.runs import result


@pytest.fixture
def repository(tmp_path):
    """A git repository with a single commit, and the hash of that commit."""
    (tmp_path / "memattn" / "runs").mkdir(parents=True)
    (tmp_path / "memattn" / "runs" / "result.py").touch()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    result._commit.cache_clear()
    yield tmp_path, head.stdout.strip()
    result._commit.cache_clear()


def test_the_commit_is_that_of_the_checkout_and_names_uncommitted_changes(repository, monkeypatch):
    folder, head = repository
    monkeypatch.setattr(result, "__file__", str(folder / "memattn" / "runs" / "result.py"))
    assert result._commit() == head
    (folder / "memattn" / "more.py").touch()
    assert result._commit() == head  # git is asked only once
    result._commit.cache_clear()
    assert result._commit() == f"{head} with uncommitted changes"


def test_an_installed_package_takes_no_commit_from_the_repository_around_it(repository, monkeypatch):
    installed = repository[0] / ".venv" / "lib" / "site-packages" / "memattn"
    installed.mkdir(parents=True)
    monkeypatch.setattr(result, "__file__", str(installed / "runs" / "result.py"))
    assert result._commit() is None


@pytest.mark.parametrize(
    ("arguments", "typed"),
    [
        ([], "python"),  # at the prompt
        (["-m", "memattn.train", "--set", "a=b c"], "python -m memattn.train --set 'a=b c'"),
        (["scripts/reproduce.py"], "python scripts/reproduce.py"),
        (["/venv/bin/memattn-sweep", "--list"], "memattn-sweep --list"),
    ],
)
def test_the_command_is_what_was_typed(monkeypatch, arguments, typed):
    monkeypatch.setattr(sys, "orig_argv", ["/venv/bin/python", *arguments])
    assert processes.command() == typed
