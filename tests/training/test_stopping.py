"""Stopped runs resume to the bit; signals stop a run, and the clock makes checkpoints due."""

import os
import signal
import time
from types import SimpleNamespace

import pytest
from helpers.runs import NO_STRATEGY, assert_same_run, before_each_step

from memattn.search.searcher import Searcher
from memattn.training.distribution import Workers
from memattn.training.trainer import Stopping, Trainer, train

SHORTER = {"training.max_steps": 4, "training.validate_every": 2, "training.checkpoint_every": 3}
OPTIONS = [
    pytest.param({**SHORTER, "training.max_steps": 3}, id="plain"),
    pytest.param(
        {
            **SHORTER,
            "training.schedule": "plateau",
            "training.batch_type": "tokens",
            "training.batch_size": 60,
            "training.accumulate": 2,
        },
        id="plateau, tokens, accumulated",
        marks=pytest.mark.long,
    ),
    pytest.param({**SHORTER, "training.precision": "mixed_float16"}, id="float16", marks=pytest.mark.long),
    pytest.param({**SHORTER, "model.kind": "extended", "model.width": 1}, id="active memory", marks=pytest.mark.long),
]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
def test_a_run_stopped_at_every_step_equals_an_uninterrupted_one(options, tiny_config, tmp_path, monkeypatch):
    monkeypatch.setattr("memattn.training.step._RAISE_AFTER", 2)  # so that the scale of float16's loss changes
    config = tiny_config({"data.num_buckets": 2, **options})
    assert train(config, str(tmp_path / "uninterrupted"), NO_STRATEGY) == 0

    def terminate(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)  # schedulers repeat the signal

    before_each_step(monkeypatch, terminate)
    statuses = []
    while not statuses or statuses[-1]:
        statuses.append(train(config, str(tmp_path / "interrupted"), NO_STRATEGY))
        assert len(statuses) < 10
    assert statuses.count(128 + signal.SIGTERM) >= config.training.max_steps - 1
    assert_same_run(tmp_path / "uninterrupted", tmp_path / "interrupted")


@pytest.mark.slow
def test_a_run_stopped_in_every_validation_equals_an_uninterrupted_one(
    finished, tiny_config, tmp_path, monkeypatch, capsys
):
    """A signal between two batches of a validation stops it there; the resumed run validates first."""
    config, search, trainers, searches = tiny_config(), Searcher.__call__, [], 0

    def terminate_then_search(self, *arguments):
        nonlocal searches
        searches += 1
        if searches in (1, 4):  # first of two batches; the resumed run searches both
            os.kill(os.getpid(), signal.SIGTERM)
            while not trainers[-1].stopping.received:
                time.sleep(0.001)
        return search(self, *arguments)

    monkeypatch.setattr("memattn.search.searcher.BATCHES_AT_ONCE", 1)
    monkeypatch.setattr(Searcher, "__call__", terminate_then_search)
    statuses = []
    while not statuses or statuses[-1]:
        trainers.append(Trainer(config, str(tmp_path / "interrupted"), NO_STRATEGY))
        statuses.append(trainers[-1].train())
        assert len(statuses) < 10
    assert statuses == [128 + signal.SIGTERM] * 2 + [0]
    assert "stopped by SIGTERM at step 3; the same command resumes it" in capsys.readouterr().out
    assert_same_run(finished, tmp_path / "interrupted")


@pytest.mark.slow
def test_a_stopped_run_keeps_its_decays(tiny_config, tmp_path, made_up_scores, capsys):
    made_up_scores(bleu=[10.0, 9.0, 11.0, 10.0, 10.0])
    config = tiny_config({"training.max_steps": 15, "training.schedule": "plateau", "training.decay_factor": 0.1})
    trainer = Trainer(config, str(tmp_path / "run"), NO_STRATEGY)
    assert trainer.train() == 0
    assert capsys.readouterr().out.count("no better for ") == 3
    rate_of_last_step = 0.01 * 0.1**2  # the validation after it decays the rate once more
    assert trainer.run.training_step.optimizer.learning_rate.numpy() == pytest.approx(rate_of_last_step)
    assert Trainer(config, str(tmp_path / "run"), NO_STRATEGY).run.progress.decays == 3


def test_the_clock_of_checkpoints_restarts_with_each(monkeypatch):
    now = 0.0
    monkeypatch.setattr("memattn.training.trainer.time", SimpleNamespace(monotonic=lambda: now))
    stopping, due = Stopping(Workers(NO_STRATEGY), checkpoint_minutes=1.0), []
    for step in range(6):
        now += 40.0
        stopping.agree(step)
        due.append(stopping.checkpoint_due)
        if due[-1]:
            stopping.saved()
    assert due == [False, True] * 3


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_reported_and_a_second_ctrl_c_ends_training_at_once(first, capfd):
    stopping = Stopping(Workers(NO_STRATEGY), 1.0)
    stopping.on_signal(first, None)
    stopping.on_signal(signal.SIGTERM, None)  # schedulers repeat it
    assert capfd.readouterr().err.count("stopping soon") == 1
    assert stopping.received == first
    with pytest.raises(KeyboardInterrupt):
        stopping.on_signal(signal.SIGINT, None)
