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
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from memattn import config as configs
from memattn import files
from memattn.runs.result import Result
from memattn.runs.run import RESULT, Run
from memattn.sweeps.runs import SweepRun, expand_with_changes
from studies.output import Output
from studies.runner import TARGETS, configs_of

RESULTS = Path(__file__).resolve().parents[2] / "results"
# Folders of results/, STUDY/SCALE, whose tables and pictures are made from stored runs.
MADE = (
    "table1/cpu",
    "windowed_memory/cpu",
    "baselines/small",
    "bridge/small",
    "pace/cpu",
    "parsing/small",
    "long_texts/small",
)


def make(name: str, folder: str) -> None:
    """Makes a table and its pictures from the stored runs of results/`name`, in a folder."""
    study, scale = name.split("/")
    target = TARGETS[study]
    runs = [[run for path in configs_of(kind, scale) for run in _runs(path, name)] for kind in target.kinds]
    target.write(Output(folder, scale), *runs)


def _runs(path: str, results_name: str) -> list[SweepRun]:
    """Returns the runs of a config that a folder of results/ holds, in the order of the config."""
    config = configs.load(path, [])
    runs, stored = [], read(results_name)
    for name, (run_config, changes) in expand_with_changes(config).items():
        if run := stored.get(name):
            folder, result = f"{results_name}/{name}", _result(run)
            runs.append(SweepRun(name, folder, run_config, result, validations(run), changes))
    return runs


def read(results_name: str) -> dict[str, dict[str, Any]]:
    """Returns the stored runs of a folder of results/, by name."""
    return files.read_json(str(RESULTS / results_name / "runs.json"))


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
    runs = files.read_json(path) if os.path.exists(path) else {}
    run = Run(run_dir)
    result = files.read_json(os.path.join(run.results_folder(split), RESULT))
    runs[os.path.basename(os.path.normpath(run_dir))] = {
        "config": result.pop("config"),
        "result": result,
        "validations": files.read_text(run.validations_path).splitlines(),
    }
    files.write(path, json.dumps(dict(sorted(runs.items())), indent=2, ensure_ascii=False) + "\n")


def write(name: str) -> None:
    """Makes results/`name` anew in place of its files; other files, such as SVGs, are left out."""
    folder = RESULTS / name
    with tempfile.TemporaryDirectory() as made:
        make(name, made)
        for file in os.listdir(made):
            if (folder / file).exists():
                shutil.copyfile(os.path.join(made, file), folder / file)
