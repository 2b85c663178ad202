"""Makes the paper's tables and figures, each by its name, training what is missing."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from memattn import config as configs
from memattn import files, open_questions, paper, run, sweep
from memattn import paper_results as results
from memattn.attention import MECHANISMS
from memattn.errors import ConfigError, RunError
from memattn.sweep import Run

# What is trained: scale -> sweeps by what they are for.
CONFIGS = {
    "paper": {
        "copy": ["configs/toy_copy/table1.yaml"],
        "scorings": ["configs/toy_copy/scorings.yaml"],
        "alignments": ["configs/toy_copy/alignments.yaml"],
        "ablations": ["configs/toy_copy/ablations.yaml"],
        "translation": [f"configs/wmt17/{pair}.yaml" for pair in paper.TABLE_2_PAIRS],
    },
    "small": {
        "copy": ["configs/small/copy.yaml"],
        "scorings": ["configs/small/scorings.yaml"],
        "alignments": ["configs/small/alignments.yaml"],
        "ablations": ["configs/small/ablations.yaml"],
        "translation": ["configs/small/translation.yaml"],
    },
}
SPLITS = {"translation": "test"}  # the copy task has "valid" alone
_TIMED = ("copy", "ablations")  # others' decode times are shown nowhere


class Target(NamedTuple):
    """What a table or figure is made of: kinds of CONFIGS, whose runs `write` gets in that order."""

    kinds: tuple[str, ...]
    write: Callable[..., None]


TARGETS = {
    "table1": Target(("copy",), results.table_1),
    "table2": Target(("translation",), results.table_2),
    "table3": Target((), results.table_3),
    "figure2": Target((), results.figure_2),
    "figure3": Target(("copy", "scorings"), results.figure_3),
    "figure4": Target(("translation",), results.figure_4),
    "figure5": Target(("translation",), results.figure_5),
    "figure6": Target(("alignments",), results.figure_6),
    "figure7": Target(("alignments",), results.figure_7),
    "figure8": Target(("translation",), results.figure_8),
    "ablations": Target(("ablations",), open_questions.ablations),
    "slots_by_length": Target(("copy",), open_questions.slots_by_length),
    "bleu_by_length": Target(("copy", "translation"), open_questions.bleu_by_length),
    "training_cost": Target((), open_questions.training_cost),
}


def check(names: list[str], scale: str) -> None:
    """Raises ConfigError where the text of a target is not prepared, before anything is trained."""
    for path in config_paths(names, scale):
        data = configs.load(path, [], MECHANISMS).data
        if data.copy is None and not os.path.isdir(data.path):
            raise ConfigError(f"{data.path}: not prepared yet; the head of {path} has the command")


def reproduce(name: str, scale: str, *, runs_dir: str, results_dir: str, jobs: int, strategy: str) -> list[str]:
    """Makes one target; returns the names of the runs that failed, without which it is written.

    Raises ConfigError, RunError, OSError.
    """
    target, failed, made = TARGETS[name], [], []
    for kind in target.kinds:
        runs = []
        for path in CONFIGS[scale][kind]:
            config, split = configs.load(path, [], MECHANISMS), SPLITS.get(kind, "valid")
            sweep_dir = sweep_folder(runs_dir, path)
            title = f"Runs of {path}{' (SCALED DOWN)' if scale == 'small' else ''}"
            failed += sweep.run_sweep(
                config,
                sweep_dir,
                jobs=jobs,
                split=split,
                average=None,
                repeats=5 if kind in _TIMED else 1,
                plots=0,
                strategy=strategy,
                title=title,
            )
            runs += sweep.finished(config, sweep_dir, split)
        if not runs:
            raise RunError(f"{name}: no run of {', '.join(CONFIGS[scale][kind])} has ended well")
        made.append(runs)
    output = results.Output(os.path.join(results_dir, name), scale)
    os.makedirs(output.folder, exist_ok=True)
    files.write(output.path(".json"), json.dumps(_manifest(target, scale, made), indent=2) + "\n")
    target.write(output, *made)  # a benchmark puts its own conditions in their place
    print(f"{name}: written to {output.path('.*')}", flush=True)
    return failed


def config_paths(names: list[str], scale: str) -> list[str]:
    """Paths of the configs of targets, each once."""
    return list(dict.fromkeys(path for name in names for kind in TARGETS[name].kinds for path in CONFIGS[scale][kind]))


def sweep_folder(runs_dir: str, path: str) -> str:
    """Where the runs of a config are: it says for what, its folder at which scale."""
    folder, name = os.path.split(os.path.splitext(path)[0])
    return os.path.join(runs_dir, f"{os.path.basename(folder)}.{name}")


def _manifest(target: Target, scale: str, made: list[list[Run]]) -> dict[str, Any]:
    return {
        "command": shlex.join(["python", os.path.relpath(sys.argv[0]), *sys.argv[1:]]),
        "scale": scale,
        **run.conditions(),
        "runs": {
            kind: {
                one.name: {
                    "config": configs.to_dict(one.config),
                    "commit": one.result["commit"],
                    "device": one.result["device"],
                    "training_seconds": float(one.validations[-1]["seconds"]),
                }
                for one in runs
            }
            for kind, runs in zip(target.kinds, made, strict=True)
        },
    }
