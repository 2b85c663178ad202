"""Training that begins with a run's weights, and finished runs that train longer."""

import re
import shutil

import numpy as np
import pytest
from helpers.models import arrays
from helpers.runs import NO_STRATEGY, assert_same_run, evaluate, stopping_after, tiny, untrained

from memattn.errors import ConfigError, RunError
from memattn.runs.run import BEST, METADATA, Run
from memattn.runs.trained import load
from memattn.training.trainer import Trainer, train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The folder of a run with random weights."""
    folder = tmp_path_factory.mktemp("base")
    data = {"data.copy.max_length": 7, "data.folder": str(folder / "data")}
    return untrained(tiny({"model.attention.position_encoding": True, **data}), folder / "run")


@pytest.fixture
def tuning(tiny_config, base):
    """tuning(changes) returns the config of a run that begins with `base` and has other data of the same vocabulary."""
    return lambda changes=(): tiny_config(
        {"model.attention.position_encoding": True, "training.init_from": base, **dict(changes)}
    )


def test_training_begins_with_the_best_weights_of_the_run(base, tuning, tmp_path):
    trainer = Trainer(tuning({"model.dropout": 0.3}), str(tmp_path / "run"), NO_STRATEGY)
    initial = load([base], [], None).model
    np.testing.assert_equal(arrays(trainer.run.model), arrays(initial))
    assert trainer.run.model.max_source_length == initial.max_source_length
    assert trainer.run.batches.longest_source < initial.max_source_length


def test_longer_sources_in_fine_tuning_make_longer_lines_translatable_but_leave_eq_10(tuning, tmp_path):
    longer = {"data.copy.max_length": 30, "data.folder": str(tmp_path / "data"), "training.max_steps": 1}
    trainer = Trainer(tuning(longer), str(tmp_path / "run"), NO_STRATEGY)
    assert trainer.train() == 0
    trained = load([str(tmp_path / "run")])
    assert trained.model.max_source_length == 8 < trainer.run.batches.longest_source
    assert trained.max_source_length == 2 * trainer.run.batches.longest_source
    corpus = tmp_path / "run" / METADATA
    corpus.write_text(re.sub(r', "longest_source": \d+', "", corpus.read_text("utf-8")), "utf-8")
    Trainer(tuning(longer), str(tmp_path / "run"), NO_STRATEGY)  # as a run of an earlier version, without the key


def test_fine_tuning_resumes_without_its_initial_run(base, tuning, tmp_path, monkeypatch):
    initial, run = str(shutil.copytree(base, tmp_path / "initial")), tmp_path / "resumed"
    config = tuning({"training.init_from": initial})
    assert train(config, str(tmp_path / "uninterrupted"), NO_STRATEGY) == 0
    monkeypatch.setattr(Trainer, "save", stopping_after(Trainer.save, 2))
    assert train(config, str(run), NO_STRATEGY) != 0
    monkeypatch.undo()
    shutil.rmtree(initial)
    assert train(config, str(run), NO_STRATEGY) == 0
    assert_same_run(str(tmp_path / "uninterrupted"), str(run))
    assert evaluate(run)["config"]["training"]["init_from"] == initial


def test_an_initial_run_that_does_not_fit_is_refused_before_a_folder_is_created(base, tuning, tmp_path):
    without_best = shutil.copytree(base, tmp_path / "without_best", ignore=shutil.ignore_patterns(BEST))
    five_symbols = {"data.copy.num_symbols": 5, "data.folder": str(tmp_path / "five_symbols")}
    for changes, error, problem in (
        (
            {"model.units": 16},
            ConfigError,
            r"training.init_from: another model: .* is \[.*\], and \[.*\] in this model",
        ),
        (five_symbols, ConfigError, "training.init_from: .*vocabulary"),
        ({"training.init_from": "nowhere"}, ConfigError, "nowhere: no such folder"),
        ({"training.init_from": str(without_best)}, RunError, "no best checkpoint yet"),
    ):
        with pytest.raises(error, match=problem):
            train(tuning(changes), str(tmp_path / "run"), NO_STRATEGY)
        assert not (tmp_path / "run").exists()


def test_the_number_of_slots_may_differ_where_no_weight_depends_on_it(tiny_config, tmp_path):
    means = {"model.attention": {"name": "stretch_means", "num_slots": 4}}
    base = untrained(tiny_config(means), tmp_path / "base")
    more = {"model.attention": {"name": "stretch_means", "num_slots": 6}, "training.init_from": base}
    model = Trainer(tiny_config(more), str(tmp_path / "run"), NO_STRATEGY).run.model
    np.testing.assert_equal(arrays(model), arrays(load([base], [], None).model))


def test_a_finished_run_trains_longer_where_max_steps_is_raised(finished, tiny_config, tmp_path, capsys):
    shorter, longer = tiny_config({"training.max_steps": 3}), tiny_config()
    for config in (shorter, longer):
        assert train(config, str(tmp_path / "run"), NO_STRATEGY) == 0
    assert_same_run(str(finished), str(tmp_path / "run"))
    assert Run(str(tmp_path / "run")).config == longer
    capsys.readouterr()
    assert train(longer, str(tmp_path / "run"), NO_STRATEGY) == 0
    assert "already finished: 6 steps" in capsys.readouterr().out


def test_a_run_that_stopped_by_its_scores_does_not_continue(tiny_config, tmp_path, made_up_scores, capsys):
    made_up_scores(bleu=[100.0])
    changes = {"training.stop_at": 99.0}
    assert train(tiny_config(changes), str(tmp_path / "run"), NO_STRATEGY) == 0
    assert train(tiny_config({**changes, "training.max_steps": 20}), str(tmp_path / "run"), NO_STRATEGY) == 0
    assert Run(str(tmp_path / "run")).config == tiny_config(changes)  # so the first command still works
    assert "already finished: BLEU 100.00 at step 3" in capsys.readouterr().out
