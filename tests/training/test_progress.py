"""The progress of a run: which validation is the best, when the learning rate falls, when training ends."""

import pytest

from memattn.config import TrainingConfig
from memattn.training import config as training_config
from memattn.training.progress import Progress
from memattn.training.step import UpdateResult


def update(loss):
    """Returns the result of an update on ten target tokens with a loss per token."""
    return UpdateResult(loss=10 * loss, correct=0.0, tokens=10.0, gradient_norm=1.0)


def after(training, *validations):
    """Returns the progress after validations with these scores, and for each whether it was the best so far."""
    progress, were_best = Progress(), []
    for scores in validations:
        progress.step += 1
        progress.add_result(update(loss=1.0))
        scores = {"bleu": 0.0, "exact_match": 0.0, **scores}
        were_best.append(progress.add_validation(training, scores, vocabulary_size=20))
    return progress, were_best


@pytest.mark.parametrize(
    ("metric", "values", "matches", "expected"),
    [
        ("bleu", [10, 30, 20], [0, 0, 0], [True, True, False]),
        ("perplexity", [10, 30, 5], [0, 0, 0], [True, False, True]),
        ("loss", [0.0, 0.0, -1.0], [0, 0, 0], [True, False, True]),
        ("bleu", [0, 0, 0], [50, 90, 90], [True, True, False]),
    ],
)
def test_the_metric_decides_which_validation_is_best_and_exact_match_between_equal_values(
    metric, values, matches, expected
):
    scores = [{metric: value, "exact_match": match} for value, match in zip(values, matches, strict=True)]
    progress, were_best = after(TrainingConfig(metric=metric), *scores)
    assert were_best == expected
    best = max(i for i, was_best in enumerate(expected) if was_best)
    assert (progress.best, progress.stalled) == ([values[best], matches[best]], 2 - best)


@pytest.mark.parametrize(
    ("before", "losses", "diverged"),
    [
        ([], [3.0, 50.0, *[2.0] * 12], False),  # a peak from which the loss returns
        ([], [90.0, 80.0, 70.0], False),  # the initial weights are large, but the loss falls
        ([], [3.0, 20.0, 20.0], True),
        ([], [], True),
        ([3.0] * 50, [50.0, 50.0], True),  # after a validation with a low loss
    ],
    ids=str,
)
def test_a_run_has_diverged_if_its_loss_ends_far_above_that_of_equal_probabilities(before, losses, diverged):
    """Equal probabilities for 20 tokens give a loss of 3 per token."""
    progress, training, scores = Progress(), TrainingConfig(max_steps=2), {"bleu": 0.0, "exact_match": 0.0}
    for interval in (before, losses):
        progress.step += 1
        for loss in interval:
            progress.add_result(update(loss))
        progress.add_validation(training, scores, vocabulary_size=20)
    assert progress.finished == "2 steps"
    assert bool(progress.diverged) is diverged


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


def test_the_learning_rate_falls_where_the_metric_stalls():
    training = TrainingConfig(metric="perplexity", schedule="plateau", decay_patience=2)
    progress, _ = after(training, *({"perplexity": value} for value in (5, 6, 6, 4, 5, 5, 5, 5)))
    assert progress.decays == 3
    for schedule in set(training_config.SCHEDULES) - {"plateau"}:
        assert after(TrainingConfig(schedule=schedule), {}, {}, {})[0].decays == 0


@pytest.mark.parametrize(("rate", "lowest", "decays"), [(0.004, 0.0015, 2), (0.001, 0.004, 0)])
def test_the_learning_rate_stops_falling_at_its_minimum(rate, lowest, decays):
    training = TrainingConfig(schedule="plateau", learning_rate=rate, min_learning_rate=lowest)
    progress, _ = after(training, *[{}] * 40)
    assert progress.decays == decays
    assert training_config.learning_rate(training, 0, decays) == pytest.approx(min(rate, lowest))


@pytest.mark.parametrize("schedule", training_config.SCHEDULES)
def test_every_schedule_keeps_a_positive_learning_rate(schedule):
    training = TrainingConfig(schedule=schedule)
    progress, _ = after(training, *[{}] * 400)
    assert training_config.learning_rate(training, training.max_steps - 1, progress.decays) > 1e-10
