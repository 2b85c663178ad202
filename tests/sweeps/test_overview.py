"""The overview of a sweep counts runs and estimates the time left."""

import pytest

from memattn.sweeps import overview
from memattn.sweeps.overview import Overview


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, in a list of one number that tests change."""
    now = [100.0]
    monkeypatch.setattr(overview.time, "monotonic", lambda: now[0])
    return now


def test_runs_are_counted_and_the_time_left_follows_from_those_that_are_done(clock):
    state = Overview("training", {"a": 1000, "b": 3000, "c": 2000, "d": 4000}, jobs=2)
    assert state.parts() == ["training: 0 of 4 runs done"]
    state.start("a")
    state.start("b")
    assert state.parts() == ["training: 0 of 4 runs done, 2 running"]
    clock[0] += 100
    state.end("a", has_failed=False)  # 0.1 s a step: b has 200 s left, c takes 200 s, d 400 s, two at a time
    assert state.parts() == ["training: 1 of 4 runs done, 1 running", "about 6:40 left"]
    state.start("c")
    clock[0] += 50
    assert state.parts() == ["training: 1 of 4 runs done, 2 running", "about 5:50 left"]
    state.end("c", has_failed=True)
    assert state.parts() == ["training: 1 of 4 runs done, 1 failed, 1 running", "about 4:35 left"]
    clock[0] += 50
    state.end("b", has_failed=False)  # 4000 steps in 300 s
    assert state.parts() == ["training: 2 of 4 runs done, 1 failed", "about 5:00 left"]
    state.start("d")
    clock[0] += 1000
    assert state.parts() == ["training: 2 of 4 runs done, 1 failed, 1 running"]
    state.end("d", has_failed=False)
    assert state.parts() == ["training: 3 of 4 runs done, 1 failed"]


def test_a_run_that_had_no_step_left_says_nothing_about_the_others(clock):
    state = Overview("training", {"a": 0, "b": 10}, jobs=1)
    state.start("a")
    clock[0] += 5
    state.end("a", has_failed=False)
    assert state.parts() == ["training: 1 of 2 runs done"]
