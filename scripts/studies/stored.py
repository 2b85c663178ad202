"""Makes tables and pictures from the runs that results/ holds, most of which were trained elsewhere.

A stored run is a folder with its config, the scores of its validations, and either result.json or conditions.json. The
latter is of a run that was trained elsewhere: it says how, and holds its BLEU. An unfinished run has neither.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from memattn import config as configs
from memattn import reading
from memattn.evaluation.result import Result
from memattn.evaluation.stored import RESULT
from memattn.sweeps.expand import changes, expand
from memattn.sweeps.results import Run
from studies.britz2017 import tables, windowed
from studies.kaiser2016 import parsing as trees
from studies.output import Output
from studies.runner import KINDS, TARGETS

ROOT = Path(__file__).resolve().parents[2]


def table_1(folder: str) -> None:
    """Writes Table 1 at the paper's size."""
    tables.table_1(Output(folder, "cpu"), _runs("table1/cpu", "table1/cpu"))


def windowed_memory(folder: str) -> None:
    """Writes the table and the pictures of windowed memory at the paper's size."""
    kinds = KINDS["windowed_memory"].folders
    runs = [run for kind in kinds for run in _runs(f"{kind}/cpu", "windowed_memory/cpu")]
    windowed.windowed_memory(Output(folder, "cpu"), runs)


def bridge(folder: str) -> None:
    """Writes the table on the decoder's initial state."""
    kinds = (f"{kind}/small" for kind in TARGETS["bridge"].kinds)
    windowed.bridge(Output(folder, "small"), *(_runs(kind, "bridge/small") for kind in kinds))


def parsing(folder: str) -> None:
    """Writes the table on parsing, also of runs that have no result yet."""
    trees.parsing(Output(folder, "small"), _runs("parsing/small", "parsing/small"))


def pace(folder: str) -> None:
    """Writes the table of training steps to 95 BLEU."""
    windowed.pace(Output(folder, "cpu"), _runs("pace/cpu", "pace/cpu"))


def _runs(config_name: str, results_name: str) -> list[Run]:
    """Returns the runs of a study's config that a folder of results/ holds, in the order of the config."""
    config = configs.load(str(ROOT / "configs/studies" / f"{config_name}.yaml"), [])
    runs, changes_by_name = [], changes(config)
    for name, run_config in expand(config).items():
        folder = str(ROOT / "results" / results_name / "runs" / name)
        if os.path.isdir(folder):
            validations = reading.csv_file(os.path.join(folder, "validation.csv"))
            runs.append(Run(name, folder, run_config, _result(folder), validations, changes_by_name[name]))
    return runs


def _result(folder: str) -> Result:
    """Returns the result of a run, or what the tables read of one."""
    if os.path.exists(path := os.path.join(folder, RESULT)):
        return Result.read(path)
    scores = {}
    if os.path.exists(path := os.path.join(folder, "conditions.json")):
        scores["bleu"] = reading.json_file(path, {"bleu": float})["bleu"]
    return cast(Result, SimpleNamespace(scores=scores))


def write(path: str) -> None:
    """Makes results anew in place of the files of a folder of results/; other files, such as SVGs, are left out."""
    folder = ROOT / path
    with tempfile.TemporaryDirectory() as made:
        RESULTS[path](made)
        for name in os.listdir(made):
            if (folder / name).exists():
                shutil.copyfile(os.path.join(made, name), folder / name)


# Results, by path from the root of the repository: each is made by a call with the path of a folder.
RESULTS: dict[str, Callable[[str], None]] = {
    "results/table1/cpu": table_1,
    "results/windowed_memory/cpu": windowed_memory,
    "results/bridge/small": bridge,
    "results/pace/cpu": pace,
    "results/parsing/small": parsing,
}
