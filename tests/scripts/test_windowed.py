"""Tables on windowed memory and on the decoder's initial state, from made-up runs."""

import dataclasses

import pytest
from helpers.studies import made_up, rows_of
from studies.britz2017 import windowed
from studies.output import Output

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scale", ["small", "cpu"])
def test_windowed_memory_has_its_symbols_per_slot_beside_its_steps(scale, tmp_path):
    output = Output(str(tmp_path), scale)
    windowed.windowed_memory(output, made_up("windowed_memory", bleu=lambda config: 96.0, scale=scale))
    rows = rows_of(output)
    assert [int(row["L"]) for row in rows] == sorted(int(row["L"]) for row in rows)
    by_model = {row["model"]: row for row in rows if row["L"] == "20"}
    assert by_model["windowed memory, K = 16"]["symbols per slot"] == "1.25"
    assert by_model["Bahdanau"]["symbols per slot"] == ""
    assert by_model["Bahdanau"]["steps to 95 BLEU"] == by_model["Bahdanau"]["training steps"] == "20"
    assert (tmp_path / "steps_by_load.png").stat().st_size > 10_000
    assert (tmp_path / "learning_curves_20.png").stat().st_size > 10_000


def test_a_continued_run_has_one_curve():
    """The steps of the second part follow those of the first."""
    first, second, apart = made_up("windowed_memory", bleu=lambda config: 96.0)[:3]
    training = dataclasses.replace(second.config.training, init_from=f"runs/{first.name}")
    second = second._replace(config=dataclasses.replace(second.config, training=training))
    joined = windowed.continued([first, second, apart])
    assert [run.name for run in joined] == [second.name, apart.name]
    assert joined[0].curve() == [(10, 1.0), (20, 96.0), (30, 1.0), (40, 96.0)]
    assert joined[1].curve() == apart.curve()


def test_the_pace_is_the_first_step_at_95_bleu_of_each_seed(tmp_path):
    output = Output(str(tmp_path), "cpu")
    windowed.pace(output, made_up("pace", bleu=lambda config: 90.0 + 3 * config.training.seed, scale="cpu"))
    rows = rows_of(output)
    assert [row["model"] for row in rows] == ["memory, K = 32", "windowed memory, K = 32", "Bahdanau"]
    for row in rows:
        assert (row["steps to 95 BLEU, by seed"], row["median"]) == ("never, 20, 20", "")
    windowed.pace(output, made_up("pace", bleu=lambda config: 96.0, scale="cpu"))
    assert {row["median"] for row in rows_of(output)} == {"20"}
