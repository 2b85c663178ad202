"""Names, groups and sums up finished runs, for the tables of all studies."""

import math
import os
import statistics
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from memattn.config import CopyConfig, TaskConfig
from memattn.evaluation import formatting, styles
from memattn.sweeps.runs import SweepRun
from studies import names

Item = TypeVar("Item")
LEARNED = 95  # validation BLEU from which a copy task counts as learned
ON_PAR = 0.5  # a model is on a par with attention if it is at most so many BLEU lower


def model_name(run: SweepRun) -> str:
    return names.model(styles.attention(run.config))


def model_words(run: SweepRun) -> str:
    """Returns the name of a run's model in words, such as "memory, K = 32"."""
    return styles.words(styles.attention(run.config))


def scorings_name(run: SweepRun) -> str:
    return names.scorings(styles.attention(run.config))


def is_memory(run: SweepRun) -> bool:
    return names.is_memory(styles.attention(run.config))


def num_slots(run: SweepRun) -> int:
    return styles.attention(run.config)["num_slots"]


def has_encodings(run: SweepRun) -> bool:
    """Returns whether a run's memory has position encodings."""
    return styles.attention(run.config).get("position_encoding", False)


def text_name(run: SweepRun) -> str:
    """Returns the name of the prepared text, such as wmt17.en-de."""
    return os.path.basename(run.config.data.path)


def task(run: SweepRun) -> CopyConfig:
    """Returns the task of a run."""
    return cast(CopyConfig, run.config.data.generated)


def task_length(run: SweepRun) -> int:
    """Returns L of a run's task."""
    return task(run).max_length


def task_name(run: SweepRun) -> str:
    """Returns the name of the task, with its length."""
    settings = task(run)
    name = f"{settings.name}, L = {settings.max_length}"
    if isinstance(settings, TaskConfig) and settings.name == "selective_copy":
        name += f", {settings.marked} marked"
    return name


def valid_bleu(run: SweepRun) -> float:
    """Returns the best validation BLEU during training."""
    return max(bleu for _, bleu in run.curve())


def steps_to(run: SweepRun) -> int | None:
    """Returns the first step whose validation BLEU shows that a task is learned; None if there is none."""
    return next((step for step, bleu in run.curve() if bleu >= LEARNED), None)


def steps_by_seed(runs: list[SweepRun]) -> str:
    """Returns each run's training steps until a task is learned, as text; "never" for a run that does not learn it."""
    return ", ".join(str(steps_to(run) or "never") for run in runs)


def median_steps(runs: list[SweepRun]) -> str:
    """Returns the median over seeds of the training steps until a task is learned; "" if a seed does not learn it."""
    steps = [step for step in (steps_to(run) for run in runs) if step]
    return f"{statistics.median(steps):.0f}" if len(steps) == len(runs) else ""


def learning_steps(runs: list[SweepRun]) -> dict[str, str]:
    """Returns columns of the training steps until a task is learned: of each seed, and their median.

    A seed that does not learn it counts as infinite; an infinite median is "".
    """
    median = statistics.median(steps_to(run) or math.inf for run in runs)
    in_words = f"{median:.0f}" if math.isfinite(median) else ""
    return {f"steps to {LEARNED} BLEU, by seed": steps_by_seed(runs), "median": in_words}


def groups(runs: list[Item], *keys: Callable[[Item], Any]) -> dict[Any, list[Item]]:
    """Returns the runs, or other items, that agree in all keys, in the order of their first ones.

    They stand under the value of the key, or under the tuple of the values of several keys.
    """
    grouped: dict[Any, list[Item]] = {}
    for run in runs:
        values = tuple(key(run) for key in keys)
        grouped.setdefault(values if len(keys) > 1 else values[0], []).append(run)
    return grouped


def rows_by(
    runs: list[SweepRun],
    keys: Mapping[str, Callable[[SweepRun], Any]],
    *columns: Callable[[list[SweepRun]], Mapping[str, Any]],
) -> list[dict]:
    """Returns a row for each group of runs that agree in all keys: the keys by their columns, then further columns."""
    rows = []
    for values, same in groups(runs, *keys.values()).items():
        row = dict(zip(keys, values if len(keys) > 1 else [values], strict=True))
        for columns_of in columns:
            row |= columns_of(same)
        rows.append(row)
    return rows


def scores(runs: list[SweepRun], metric: str = "bleu") -> list[float]:
    return [run.result.scores[metric] for run in runs]


def mean_score(runs: list[SweepRun], metric: str = "bleu", form: str = ".2f") -> str:
    return f"{statistics.mean(scores(runs, metric)):{form}}"


def summary(column: str, values: list[float], form: str = ".2f") -> dict[str, str]:
    """Returns the mean of values under a column, and their range under "min-max"; both are empty without values."""
    if not values:
        return {column: "", "min-max": ""}
    return {column: f"{statistics.mean(values):{form}}", "min-max": formatting.extent(values, form)}


def count(runs: list[SweepRun]) -> dict[str, Any]:
    """Returns the number of runs, which differ in seed, as a column."""
    return {"seeds": len(runs)}


def test_bleu(runs: list[SweepRun]) -> dict[str, str]:
    """Returns columns of the mean and the range of BLEU on the test set."""
    return summary("test BLEU", scores(runs))
