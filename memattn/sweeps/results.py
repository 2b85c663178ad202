"""The finished runs of a sweep, collected from their folders."""

import csv
import io
import os
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from memattn import config as configs
from memattn import reading
from memattn.config import Config
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation.metrics import METRICS
from memattn.evaluation.result import Result
from memattn.runs.run_folder import BEST, CHECKPOINTS
from memattn.sweeps.expand import changes, expand


class Run(NamedTuple):
    """A trained and evaluated run of a sweep.

    Attributes:
      validations: rows of its validation.csv.
      changes: dotted keys with the values that set it apart from the other runs.
    """

    name: str
    folder: str
    config: Config
    result: Result
    validations: list[dict[str, str]]
    changes: Mapping[str, Any] = {}

    @property
    def curve(self) -> list[tuple[int, float]]:
        """Steps, and validation BLEU after each."""
        return [(int(row["step"]), float(row["bleu"])) for row in self.validations]

    def updates_to(self, bleu: float) -> int | None:
        """The first step whose validation BLEU is at least `bleu`; None if there is none."""
        return next((step for step, reached in self.curve if reached >= bleu), None)


def finished(config: Config, sweep_dir: str, split: str, average: int | None = None) -> list[Run]:
    """The runs of a sweep that have a result on a split."""
    done, changed = [], changes(config)
    for name, run_config in expand(config).items():
        folder = os.path.join(sweep_dir, name)
        result = result_of(folder, run_config, split, average)
        if result is not None:
            path = os.path.join(folder, "validation.csv")
            if validations := _validations(path):
                done.append(Run(name, folder, run_config, result, validations, changed[name]))
            else:
                warnings.warn(f"{name}: {path} is damaged; remove {folder} to train it again", stacklevel=2)
    return done


def result_of(folder: str, config: Config, split: str, average: int | None) -> Result | None:
    """The result of a run; None if there is none for exactly this config, split and choice of checkpoints."""
    try:
        result = Result.read(os.path.join(folder, evaluation.RESULT))
        stored = configs.from_dict(result.config)  # with the defaults of newer keys
        folders = [os.path.basename(os.path.dirname(path)) for path in result.checkpoints]
    except (OSError, ValueError, TypeError):
        return None
    same = result.split == split and configs.to_dict(stored) == configs.to_dict(config)
    is_whole = config.data.generated or any(METRICS[name].needs_detokenized for name in result.scores)
    chosen = folders == ([CHECKPOINTS] * average if average else [BEST])
    return result if same and is_whole and chosen else None


def _validations(path: str) -> list[dict[str, str]]:
    """The rows of a run's validation.csv; none if it is missing or damaged."""
    try:
        rows = list(csv.DictReader(io.StringIO(reading.text(path), newline="")))
        for row in rows:
            int(row["step"]), float(row["bleu"]), float(row["seconds"])
    except (OSError, ValueError, TypeError, KeyError, csv.Error):
        return []
    return rows
