"""Tables on windowed memory and on the decoder's initial state, from made-up runs."""

import dataclasses

import pytest
from helpers.studies import made_up, rows_of
from studies.britz2017 import windowed
from studies.output import Output

pytestmark = pytest.mark.slow


def test_bridges_stand_side_by_side_with_means_over_seeds(tmp_path):
    output = Output(str(tmp_path), "small")

    def bleu(config):
        return (90 if config.model.bridge == "dense" else 50) + (2 if config.training.seed < 3 else 5)

    windowed.bridge(output, *(made_up(kind, bleu=bleu) for kind in ("bridge", "bridge_translation")))
    rows = rows_of(output)
    assert [row["task"] for row in rows] == ["copy, L = 20", "copy, L = 40"] * 8 + ["multi30k.en-de"] * 4
    assert rows[0]["model"] == "no attention"
    assert rows[6]["model"] == "memory, K = 16"
    columns = ("zero: BLEU", "zero: min-max", "zero: steps to 95 BLEU", "dense: BLEU", "dense: steps to 95 BLEU")
    assert [(row["zero: BLEU"], row["dense: seeds"]) for row in rows[:2]] == [("", "3")] * 2  # no attention
    for row in rows[2:-4]:
        assert [row[column] for column in columns] == [
            "53.00", "52.00-55.00", "never, never, never", "93.00", "never, never, 20"
        ]  # fmt: skip
    for row in rows[-4:]:  # text has no BLEU at which it is learned
        assert [row[column] for column in columns] == ["53.00", "52.00-55.00", "", "93.00", ""]
    assert [row["model"] for row in rows[-3:-1]] == [
        "windowed memory, K = 32",
        "windowed memory, K = 32, read by address",
    ]


def test_the_parts_of_windowed_memory_have_a_row_and_a_curve_each(tmp_path):
    output = Output(str(tmp_path), "small")
    windowed.windows(output, made_up("windows", bleu=lambda config: 96.0))
    rows = rows_of(output)
    parts = ["as in the paper", "windows", "softmax over time", "additive reading"]
    assert [row["model"] for row in rows[:4]] == parts
    assert [row["model"] for row in rows[-5:]] == [
        "windows, softmax over time",
        "windows, softmax over time, additive reading",
        "position encodings, sum",
        "position encodings, mean",
        "position encodings, none",
    ]
    assert {row["steps to 95 BLEU"] for row in rows} == {"20, 20, 20"}
    assert {row["BLEU after 500"] for row in rows} == {"96.0"}  # the runs ended at step 20
    assert (tmp_path / "learning_curves.png").stat().st_size > 10_000


def test_baselines_stand_beside_windowed_memory_for_each_task_and_number_of_slots(tmp_path):
    output = Output(str(tmp_path), "small")
    windowed.baselines(output, made_up("baselines", bleu=lambda config: 90.0 + config.training.seed))
    rows = rows_of(output)
    assert [(row["task"], row["K"]) for row in rows[::4]] == [
        *(("copy, L = 40", slots) for slots in ("16", "8", "4")),
        *(("selective_copy, L = 40, 4 marked", slots) for slots in ("8", "4")),
    ]
    assert [row["what writes the slots"] for row in rows[:4]] == [
        "windows and learned weights",
        "plain means of stretches",
        "learned weights, without windows",
        "learned queries (latents)",
    ]
    assert {(row["BLEU"], row["min-max"], row["seeds"]) for row in rows} == {("92.00", "91.00-93.00", "3")}
    assert (tmp_path / "learning_curves_selective_copy_4.png").stat().st_size > 10_000


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
