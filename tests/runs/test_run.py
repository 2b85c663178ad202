"""A run folder: what it holds, what is refused when it is made again; provenance of results."""

import subprocess
import sys

import pytest
from helpers.files import contents

from memattn import processes
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError
from memattn.runs import result as results
from memattn.runs.run import Run

METADATA = {"max_source_length": 5, "source_features": 3, "training_pairs": 60}


@pytest.fixture
def create(tmp_path):
    """create(config, metadata, ...) makes a run folder, or opens the one that it made before."""

    def create(config, metadata=METADATA, tokens=("a", "b"), **options):
        run = Run(tmp_path / "run")
        run.create(config, Vocabulary(list(tokens)), Tokenizer(), metadata, **options)
        return run

    return create


def test_only_the_search_and_the_folder_of_the_data_may_change(tiny_config, create):
    run = create(tiny_config())
    assert run.config_with(["decoding.beam_size=7"]).decoding.beam_size == 7
    assert run.config.decoding.beam_size == 2
    with pytest.raises(ConfigError, match="--set model.units: the model is trained"):
        run.config_with(["model.units=4"])


def test_a_run_that_is_made_again_may_only_train_longer(tiny_config, create):
    run, longer = create(tiny_config()), tiny_config({"training.max_steps": 40})
    before = contents(run.folder)
    for config, options, problem in (
        (tiny_config({"training.max_steps": 5}), {}, r"training.max_steps \(6 there, 5 here\)"),
        (tiny_config({"model.units": 9}), {}, r"holds a run of another config: model.units \(8 there, 9 here\)"),
        (longer, {"tokens": ("a", "c")}, "vocab.txt: does not fit the data"),
        (longer, {"metadata": {**METADATA, "training_pairs": 61}}, "corpus.json: does not fit the data"),
    ):
        with pytest.raises(ConfigError, match=problem):
            create(config, **options)
    create(longer)
    assert contents(run.folder) == before
    run.raise_max_steps(longer)
    assert Run(run.folder).config == longer


def test_a_run_whose_learning_rate_depends_on_max_steps_cannot_train_longer(tiny_config, create):
    linear = {"training.schedule": "linear"}
    create(tiny_config(linear))
    with pytest.raises(ConfigError, match="may raise training.max_steps, unless the learning rate depends on it"):
        create(tiny_config({**linear, "training.max_steps": 40}))


def test_the_error_of_a_config_with_former_keys_names_the_script_that_converts_it(tiny_config, create):
    run = create(tiny_config())
    with open(f"{run.folder}/config.yaml", "a", encoding="utf-8") as file:
        file.write("stop_at_bleu: 99\n")
    with pytest.raises(ConfigError, match=f"stop_at_bleu: .*; .* scripts/convert_old_runs.py {run.folder}$"):
        assert Run(run.folder).config


@pytest.fixture
def repository(tmp_path):
    """A git repository with a single commit, and the hash of that commit."""
    (tmp_path / "memattn" / "runs").mkdir(parents=True)
    (tmp_path / "memattn" / "runs" / "result.py").touch()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    results._commit.cache_clear()
    yield tmp_path, head.stdout.strip()
    results._commit.cache_clear()


def test_the_commit_is_that_of_the_checkout_and_names_uncommitted_changes(repository, monkeypatch):
    folder, head = repository
    monkeypatch.setattr(results, "__file__", str(folder / "memattn" / "runs" / "result.py"))
    assert results._commit() == head
    (folder / "memattn" / "more.py").touch()
    assert results._commit() == head  # git is asked only once
    results._commit.cache_clear()
    assert results._commit() == f"{head} with uncommitted changes"


def test_an_installed_package_takes_no_commit_from_the_repository_around_it(repository, monkeypatch):
    installed = repository[0] / ".venv" / "lib" / "site-packages" / "memattn"
    installed.mkdir(parents=True)
    monkeypatch.setattr(results, "__file__", str(installed / "runs" / "result.py"))
    assert results._commit() is None


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
