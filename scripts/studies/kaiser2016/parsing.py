"""Compares attention, memory and active memory in parsing (Kaiser & Bengio, 2016)."""

import statistics

from memattn.evaluation import formatting
from memattn.sweeps.results import SweepRun
from studies.output import Output
from studies.runs import groups, model_words

_F1 = "bracketing_f1"
_STEPS = (454, 908, 1362, 1816, 2270, 4086)  # training steps whose validations are shown; 454 are an epoch


def parsing(output: Output, runs: list[SweepRun]) -> None:
    """Writes F1 on the validation split by training step, and F1 and malformed trees on the test split.

    The columns of the test split are empty for models without a finished run.
    """
    rows = []
    for model, seeds in groups(runs, model_words).items():
        scores = [run.result.scores for run in seeds if _F1 in run.result.scores]
        f1, malformed = ([score[name] for score in scores] for name in (_F1, "malformed_trees"))
        rows.append(
            {
                "model": model,
                "seeds": len(seeds),
                **{f"validation F1, step {step:,}": _validation_f1(step, seeds) for step in _STEPS},
                "test F1": f"{statistics.mean(f1):.1f}" if f1 else "",
                "min-max": formatting.extent(f1, ".1f") if f1 else "",
                "malformed trees, %": f"{statistics.mean(malformed):.1f}" if f1 else "",
            }
        )
    output.table(rows, "Parsing: F1 of labelled brackets, trees of a parser")


def _validation_f1(step: int, seeds: list[SweepRun]) -> str:
    """Returns the mean F1 of runs at a training step; "" if a run has not come so far."""
    f1 = [dict(run.curve(_F1)).get(step) for run in seeds]
    reached = [value for value in f1 if value is not None]
    return f"{statistics.mean(reached):.1f}" if len(reached) == len(seeds) else ""
