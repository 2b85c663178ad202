"""Makes tables and pictures from the runs that results/ holds, most of which were trained elsewhere.

results/STUDY/SCALE/runs.json has the runs by name, each with its `config`, the lines of its validation.csv as
`validations`, and either `result`, which is result.json without the config, or `conditions`. The latter are of a run
that was trained elsewhere: they say how, and hold its BLEU. An unfinished run has neither.
"""

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from memattn import config as configs
from memattn import files, reading
from memattn.runs.result import Result
from memattn.runs.run import RESULT, Run
from memattn.sweeps.expand import changes, expand
from memattn.sweeps.results import SweepRun
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


def baselines(folder: str) -> None:
    """Writes the table and the pictures on windowed memory and its baselines."""
    windowed.baselines(Output(folder, "small"), _runs("baselines/small", "baselines/small"))


def parsing(folder: str) -> None:
    """Writes the table on parsing, also of runs that have no result yet."""
    trees.parsing(Output(folder, "small"), _runs("parsing/small", "parsing/small"))


def pace(folder: str) -> None:
    """Writes the table of training steps to 95 BLEU."""
    windowed.pace(Output(folder, "cpu"), _runs("pace/cpu", "pace/cpu"))


def _runs(config_name: str, results_name: str) -> list[SweepRun]:
    """Returns the runs of a study's config that a folder of results/ holds, in the order of the config."""
    config = configs.load(str(ROOT / "configs/studies" / f"{config_name}.yaml"), [])
    runs, changes_by_name, stored = [], changes(config), read(results_name)
    for name, run_config in expand(config).items():
        if run := stored.get(name):
            folder, result = f"{results_name}/{name}", _result(run)
            runs.append(SweepRun(name, folder, run_config, result, validations(run), changes_by_name[name]))
    return runs


def read(results_name: str) -> dict[str, dict[str, Any]]:
    """Returns the stored runs of a folder of results/, by name."""
    return reading.json_file(str(ROOT / "results" / results_name / "runs.json"))


def validations(run: dict[str, Any]) -> list[dict[str, str]]:
    """Returns the rows of a stored run's validation.csv."""
    return list(csv.DictReader(run["validations"]))


def _result(run: dict[str, Any]) -> Result:
    """Returns the result of a stored run, or what the tables read of one."""
    if "result" in run:
        return Result.from_json({**run["result"], "config": run["config"]})
    scores = {"bleu": run["conditions"]["bleu"]} if "conditions" in run else {}
    return cast(Result, SimpleNamespace(scores=scores))


def add(path: str, run_dir: str, split: str = "valid") -> None:
    """Adds a run folder, with its result on a split, to the stored runs in the file `path`."""
    runs = reading.json_file(path) if os.path.exists(path) else {}
    run = Run(run_dir)
    result = reading.json_file(os.path.join(run.results_folder(split), RESULT))
    runs[os.path.basename(os.path.normpath(run_dir))] = {
        "config": result.pop("config"),
        "result": result,
        "validations": reading.text(run.validations_path).splitlines(),
    }
    files.write(path, json.dumps(dict(sorted(runs.items())), indent=2, ensure_ascii=False) + "\n")


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
    "results/baselines/small": baselines,
    "results/bridge/small": bridge,
    "results/pace/cpu": pace,
    "results/parsing/small": parsing,
}
