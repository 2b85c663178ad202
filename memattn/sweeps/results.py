"""Collects the finished runs of a sweep from their folders."""

import contextlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from memattn import config as configs
from memattn import reading
from memattn.config import Config
from memattn.errors import RunError
from memattn.evaluation.result import Result
from memattn.evaluation.stored import RESULT, folder_of
from memattn.runs import checkpoints
from memattn.runs.run_folder import BEST, CHECKPOINTS, VALIDATIONS
from memattn.sweeps.expand import changes, expand
from memattn.training.progress import Progress


class Run(NamedTuple):
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


def finished(config: Config, sweep_dir: str, split: str, average: int | None = None) -> list[Run]:
    """Returns the runs of a sweep that have a result on a split."""
    runs, changes_by_name = [], changes(config)
    for name, run_config in expand(config).items():
        folder = os.path.join(sweep_dir, name)
        result = result_of(folder, run_config, split, average)
        if result is not None:
            runs.append(Run(name, folder, run_config, result, validations(folder), changes_by_name[name]))
    return runs


def result_of(folder: str, config: Config, split: str, average: int | None) -> Result | None:
    """Returns the result of a run; None if there is none for exactly this config, split and choice of checkpoints."""
    try:
        result = Result.read(os.path.join(folder_of(folder, split), RESULT))
        stored = configs.from_dict(result.config)  # adds the defaults of keys that are newer than the result
        folders = [os.path.basename(os.path.dirname(path)) for path in result.checkpoints]
    except (OSError, ValueError, TypeError):
        return None
    is_same = configs.to_dict(stored) == configs.to_dict(config)
    return result if is_same and folders == ([CHECKPOINTS] * average if average else [BEST]) else None


def is_final(folder: str, result: Result) -> bool:
    """Returns whether the training of a run has ended, and the result is of its newest checkpoint of that kind.

    A run whose checkpoints were removed counts as ended.
    """
    progress = Progress()
    if state := checkpoints.stored_state(os.path.join(folder, CHECKPOINTS), "progress"):
        with contextlib.suppress(ValueError):
            progress.deserialize(state)
            if not progress.finished:
                return False
    path = result.checkpoints[0]
    with contextlib.suppress(RunError):
        kept = checkpoints.listed(os.path.join(folder, os.path.basename(os.path.dirname(path))))
        return not kept or os.path.basename(path) == os.path.basename(kept[0])
    return True


def validations(folder: str) -> list[dict[str, str]]:
    """Returns the rows of a run's validation.csv; none before the first."""
    path = os.path.join(folder, VALIDATIONS)
    return reading.csv_file(path) if os.path.exists(path) else []
