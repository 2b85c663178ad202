"""The progress of a run: which validation is the best, when the learning rate falls, when training ends."""

import numpy as np
import pytest

from memattn import config as configs
from memattn.config import TrainingConfig
from memattn.training import reporting, schedules
from memattn.training.progress import Progress
from memattn.training.step import UpdateResult


def after(training, *validations):
    """Returns the progress after validations with these scores, and for each whether it was the best so far."""
    progress, were_best = Progress(), []
    for scores in validations:
        progress.step += 1
        progress.add_loss(loss=1.0, tokens=1.0)
        scores = {"bleu": 0.0, "exact_match": 0.0, **scores}
        were_best.append(progress.add_validation(training, scores))
        progress.decay(training)
        progress.end(training, scores, vocabulary_size=20)
    return progress, were_best


@pytest.mark.parametrize(
    ("metric", "values", "expected"),
    [
        ("bleu", [10, 30, 20], [True, True, False]),
        ("chrf", [10, 30, 20], [True, True, False]),
        ("perplexity", [10, 30, 5], [True, False, True]),
        ("loss", [0.0, 0.0, -1.0], [True, False, True]),
        ("cer", [90.0, 101.0, 80.0], [True, False, True]),
    ],
)
def test_the_best_validation_has_the_best_value_of_the_metric(metric, values, expected):
    progress, were_best = after(TrainingConfig(metric=metric), *({metric: value} for value in values))
    assert were_best == expected
    assert progress.best[0] == values[len(expected) - 1 - expected[::-1].index(True)]


@pytest.mark.parametrize("metric", ["bleu", "perplexity"])
def test_exact_match_decides_between_equal_values(metric):
    scores = [{metric: 2.0, "exact_match": match} for match in (50.0, 90.0, 90.0)]
    progress, were_best = after(TrainingConfig(metric=metric), *scores)
    assert were_best == [True, True, False]
    assert (progress.best, progress.stalled) == ([2.0, 90.0], 1)


@pytest.mark.parametrize(
    ("options", "values", "end"),
    [
        ({"patience": 2}, [8, 9, 10], "2 validations without a better perplexity at step 3"),
        ({"stop_at": 5.0}, [9, 5], "perplexity 5 at step 2"),
        ({"max_steps": 2}, [9, 8], "2 steps"),
        ({"stop_at": 5.0}, [9, 5.1], ""),
        ({"patience": 2}, [9, 9, 8], ""),
    ],
)
def test_patience_a_target_value_or_max_steps_ends_training(options, values, end):
    progress, _ = after(TrainingConfig(metric="perplexity", **options), *({"perplexity": value} for value in values))
    assert (progress.finished, progress.diverged) == (end, "")


def test_only_the_updates_since_the_last_validation_say_that_a_run_has_diverged():
    progress, training, scores = Progress(), TrainingConfig(max_steps=2), {"bleu": 0.0, "exact_match": 0.0}
    for loss, updates in ((3.0, 50), (50.0, 2)):
        progress.step += 1
        for _ in range(updates):
            progress.add_loss(loss=10 * loss, tokens=10)
        progress.add_validation(training, scores)
        progress.end(training, scores, vocabulary_size=20)
    assert progress.finished == "2 steps"
    assert "the loss per token ended at 50" in progress.diverged


def test_the_learning_rate_falls_where_the_metric_stalls():
    training = TrainingConfig(metric="perplexity", schedule="plateau", decay_patience=2)
    progress, _ = after(training, *({"perplexity": value} for value in (5, 6, 6, 4, 5, 5, 5, 5)))
    assert progress.decays == 3
    for schedule in set(schedules.SCHEDULES) - {"plateau"}:
        assert after(TrainingConfig(schedule=schedule), {}, {}, {})[0].decays == 0


@pytest.mark.parametrize(("rate", "lowest", "decays"), [(0.004, 0.001, 2), (0.004, 0.0015, 2), (0.001, 0.004, 0)])
def test_the_learning_rate_stops_falling_at_its_minimum(rate, lowest, decays):
    training = TrainingConfig(schedule="plateau", learning_rate=rate, min_learning_rate=lowest)
    progress, _ = after(training, *[{}] * 40)
    assert progress.decays == decays
    assert schedules.learning_rate(training, 0, decays) == pytest.approx(min(rate, lowest))


@pytest.mark.parametrize("schedule", schedules.SCHEDULES)
def test_every_schedule_keeps_a_positive_learning_rate(schedule):
    training = TrainingConfig(schedule=schedule)
    progress, _ = after(training, *[{}] * 400)
    assert schedules.learning_rate(training, training.max_steps - 1, progress.decays) > 1e-10


def test_a_finished_run_continues_if_max_steps_was_raised():
    progress, _ = after(TrainingConfig(max_steps=2), {}, {})
    progress.resume(TrainingConfig(max_steps=2))
    assert progress.finished == "2 steps"
    progress.resume(TrainingConfig(max_steps=3))
    assert (progress.finished, progress.is_out_of_steps) == ("", False)


def report(*results):
    """Reports training steps; returns lines to print and numbers for TensorBoard."""
    return reporting.steps_report(results, step=1_200, max_steps=2_000, seconds=2.0, learning_rate=0.5)


def test_steps_are_reported_per_token_and_second():
    warning, line, scalars = report(UpdateResult(8.0, 1.0, 4.0, 3.0), UpdateResult(2.0, 5.0, 6.0, 5.0))
    assert not warning
    assert line == (
        "step 1,200/2,000  loss 1.0000  perplexity 2.718  accuracy 60.00%  1.00 steps/s  5 target tokens/s  13:20 left"
    )
    numbers = {"loss": 1.0, "accuracy": 0.6, "gradient_norm": 4.0, "learning_rate": 0.5}
    assert scalars == pytest.approx({**numbers, "steps_per_second": 1.0, "tokens_per_second": 5.0})


def test_skipped_updates_are_reported_on_a_line_of_their_own():
    skipped = UpdateResult(np.nan, 0.0, 4.0, 1.0)
    warning, line, scalars = report(skipped, UpdateResult(8.0, 1.0, 4.0, np.inf), UpdateResult(8.0, 1.0, 4.0, 3.0))
    assert warning == "step 1,200: updates skipped, as loss or gradient was not finite: 2"
    assert line.startswith("step 1,200/2,000  loss 2.0000  ")
    assert scalars["loss"] == pytest.approx(2)
    assert report(skipped) == ("step 1,200: updates skipped, as loss or gradient was not finite: 1", "", {})


def test_a_validation_is_reported_with_each_of_its_metrics():
    line = reporting.validation_line(1_200, {"bleu": 30.0, "exact_match": 12.34, "perplexity": 5.0}, 1.5, is_best=True)
    assert line == "validation at step 1,200: BLEU 30.00  exact match 12.3%  perplexity 5  (1.5 s)  best so far"
    assert reporting.end_line("2 steps", "bleu", 30.0) == "finished: 2 steps; best validation BLEU 30.00"
    assert reporting.end_line("2 steps", "bleu", None) == "finished: 2 steps; best validation BLEU none"


@pytest.mark.parametrize(
    ("pairs", "changes", "has_note"),
    [
        (29_000, {}, True),
        (5_900_000, {}, False),
        (29_000, {"training": {"learning_rate": 0.002}}, False),
        (29_000, {"data": {"copy": {}}}, False),
        (29_000, {"model": {"kind": "neural_gpu"}}, False),
    ],
)
def test_a_small_text_with_the_papers_learning_rate_is_remarked_upon(pairs, changes, has_note):
    config = configs.from_dict({"data": {"folder": "text"}, **changes})
    note = reporting.note_on_settings(config, pairs)
    assert (note is not None) == has_note
    if note:
        assert "own_text/small and own_text/base" in note
        assert "0.0001" in note
