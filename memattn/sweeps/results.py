"""Collects the finished runs of a sweep from their folders."""

import contextlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from memattn import config as configs
from memattn.config import Config
from memattn.errors import RunError
from memattn.runs import checkpoints
from memattn.runs.result import Result
from memattn.runs.run import Run, is_best
from memattn.sweeps.expand import changes, expand
from memattn.training.progress import Progress


class SweepRun(NamedTuple):
    """A trained and evaluated run of a sweep.

    Attributes:
      name: name of the run in the sweep.
      folder: path of the run folder.
      config: config of the run.
      result: scores, times and conditions.
      validations: rows of validation.csv.
      changes: values that the run changes in the sweep's config, by dotted key.
    """

    name: str
    folder: str
    config: Config
    result: Result
    validations: list[dict[str, str]]
    changes: Mapping[str, Any] = {}

    def curve(self, metric: str = "bleu") -> list[tuple[int, float]]:
        """Returns training steps, each with the validation score after it."""
        return [(int(row["step"]), float(row[metric])) for row in self.validations]


def finished(config: Config, sweep_dir: str, split: str, average: int | None = None) -> list[SweepRun]:
    """Returns the runs of a sweep that have a result on a split."""
    runs, changes_by_name = [], changes(config)
    for name, run_config in expand(config).items():
        run = Run(os.path.join(sweep_dir, name))
        if result := result_of(run, run_config, split, average):
            runs.append(SweepRun(name, run.folder, run_config, result, run.validations, changes_by_name[name]))
    return runs


def result_of(run: Run, config: Config, split: str, average: int | None) -> Result | None:
    """Returns the result of a run; None if there is none for exactly this config, split and choice of checkpoints."""
    try:
        result = run.result(split)
        if result is None:
            return None
        stored = configs.from_dict(result.config)  # adds the defaults of keys that are newer than the result
    except (OSError, ValueError, TypeError):
        return None
    are_best = [is_best(path) for path in result.checkpoints]
    is_same = configs.to_dict(stored) == configs.to_dict(config)
    return result if is_same and are_best == ([False] * average if average else [True]) else None


def is_final(run: Run, result: Result) -> bool:
    """Returns whether the training of a run has ended, and the result is of its newest checkpoint of that kind.

    A run whose checkpoints were removed counts as ended.
    """
    progress = Progress()
    if state := checkpoints.stored_state(run.checkpoints, "progress"):
        with contextlib.suppress(ValueError):
            progress.deserialize(state)
            if not progress.finished:
                return False
    path = result.checkpoints[0]
    with contextlib.suppress(RunError):
        kept = checkpoints.listed(run.best if is_best(path) else run.checkpoints)
        return not kept or os.path.basename(path) == os.path.basename(kept[0])
    return True
