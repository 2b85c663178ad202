"""Makes the paper's tables and figures by name, training missing runs."""

import json
import os
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from memattn import config as configs
from memattn import files
from memattn.config import Config
from memattn.errors import ConfigError, RunError
from memattn.runs import provenance
from memattn.sweeps import runner as sweep
from memattn.sweeps.expand import expand
from memattn.sweeps.runner import Run
from studies.britz2017 import family, future_work, open_questions
from studies.britz2017 import figures as paper_figures
from studies.britz2017 import printed as paper_tables
from studies.kaiser2016 import tables as active_memory

# Scale -> kind of runs -> the sweep that trains them.
CONFIGS = {
    "paper": {
        "copy": ["configs/toy_copy/table1.yaml"],
        "scorings": ["configs/toy_copy/scorings.yaml"],
        "alignments": ["configs/toy_copy/alignments.yaml"],
        "ablations": ["configs/toy_copy/ablations.yaml"],
        "translation": [f"configs/wmt17/{pair}.yaml" for pair in paper_tables.TABLE_2_PAIRS],
        "en-de": ["configs/wmt17/en-de.yaml"],
    },
    "small": {
        "copy": ["configs/small/copy.yaml"],
        "scorings": ["configs/small/scorings.yaml"],
        "alignments": ["configs/small/alignments.yaml"],
        "ablations": ["configs/small/ablations.yaml"],
        "translation": ["configs/small/translation.yaml"],
        "en-de": ["configs/small/translation.yaml"],
        "tasks": ["configs/small/tasks.yaml"],
        "teachers": ["configs/small/teachers.yaml"],
        "taught": ["configs/small/taught.yaml"],
        "taught_translation": ["configs/small/taught_translation.yaml"],
        "long": ["configs/small/long.yaml"],
        "family": ["configs/small/family.yaml"],
        "rnnsearch": ["configs/small/family_rnnsearch.yaml"],
        "family_translation": ["configs/small/family_translation.yaml"],
        "rnnsearch_translation": ["configs/small/rnnsearch_translation.yaml"],
        "arithmetic": [
            "configs/small/addition.yaml",
            "configs/small/multiplication.yaml",
            "configs/small/addition_columns_5.yaml",
            "configs/small/addition_columns_10.yaml",  # begins with the one above, and so does the next
            "configs/small/addition_columns_20.yaml",
        ],
        "active_translation": ["configs/small/active_translation.yaml"],
    },
    "cpu": {"copy": ["configs/cpu/table1.yaml"], "alignments": ["configs/cpu/alignments.yaml"]},
}
_TRANSLATION = (
    "translation",
    "en-de",
    "taught_translation",
    "family_translation",
    "rnnsearch_translation",
    "active_translation",
)
SPLITS = dict.fromkeys(_TRANSLATION, "test")  # tasks have "valid" alone
_TIMED = ("copy", "ablations", "family", "rnnsearch")  # decode times of the others are not shown


class Target(NamedTuple):
    """Source of a table or figure: kinds of CONFIGS, whose runs `write` gets in that order, or a benchmark."""

    kinds: tuple[str, ...]
    write: Callable[..., None]
    has_part: Callable[[Config], bool] = lambda config: True  # whether a run is needed
    is_benchmark: bool = False  # writes its own conditions


TARGETS = {
    "table1": Target(("copy",), paper_figures.table_1),
    "table2": Target(("translation",), paper_figures.table_2),
    "table3": Target((), paper_figures.table_3, is_benchmark=True),
    "figure2": Target((), paper_figures.figure_2),
    "figure3": Target(("copy", "scorings"), paper_figures.figure_3),
    "figure4": Target(("translation",), paper_figures.figure_4),
    "figure5": Target(("translation",), paper_figures.figure_5),
    "figure6": Target(("alignments",), paper_figures.figure_6),
    "figure7": Target(("alignments",), paper_figures.figure_7),
    "figure8": Target(("en-de",), paper_figures.figure_8, has_part=paper_figures.in_figure_8),
    "ablations": Target(("ablations",), open_questions.ablations),
    "first_contexts": Target((), open_questions.first_contexts),
    "slots_by_length": Target(("copy",), open_questions.slots_by_length),
    "errors_by_position": Target(("copy",), open_questions.errors_by_position),
    "bleu_by_length": Target(("copy", "translation"), open_questions.bleu_by_length),
    "slots": Target(("tasks",), future_work.slots),
    "nested_slots": Target(("tasks",), future_work.nested_slots),
    "teacher": Target(("teachers", "taught"), future_work.teacher),
    "teacher_translation": Target(
        ("translation", "taught_translation"),
        future_work.teacher_translation,
        has_part=lambda config: bool(config.training.teacher) or future_work.translated(config),
    ),
    "long_sources": Target(("long",), future_work.long_sources),
    "family": Target(("family", "rnnsearch", "family_translation", "rnnsearch_translation"), family.family),
    "rnnsearch_by_length": Target(("rnnsearch_translation",), family.rnnsearch_by_length),
    "arithmetic": Target(("arithmetic",), active_memory.arithmetic),
    "active_translation": Target(("active_translation",), active_memory.translation),
    "training_cost": Target((), open_questions.training_cost, is_benchmark=True),
}


def available(scale: str) -> list[str]:
    """The targets that a scale has; at "cpu" none of those without runs, which the other scales measure."""
    return [
        name
        for name, target in TARGETS.items()
        if all(kind in CONFIGS[scale] for kind in target.kinds) and (target.kinds or scale != "cpu")
    ]


def check(names: list[str], scale: str, runs_dir: str) -> None:
    """Raises ConfigError, before anything is trained, if text is not prepared, or a run begins with or is taught by one
    that is none of the wanted ones."""
    for path in config_paths(names, scale):
        data = configs.load(path, []).data
        if data.generated is None and not os.path.isdir(data.path):
            raise ConfigError(f"{data.path}: not prepared yet; the head of {path} has the command")
    wanted = runs_of(names, scale)
    trained = {
        os.path.realpath(os.path.join(sweep_folder(runs_dir, path), run)) for path in wanted for run in wanted[path]
    }
    for path, runs in wanted.items():
        for key in ("teacher", "init_from"):
            for run in filter(None, (getattr(config.training, key) for config in runs.values())):
                if os.path.realpath(run) not in trained:
                    raise ConfigError(f"{path}: training.{key}: {run} is not trained with --runs_dir {runs_dir}")


class Reproduction:
    """Makes tables and figures at one scale; trains and evaluates each run once for all of them.

    Attributes:
      failed: folders of the failed runs; tables and figures are made without them, and say so.
    """

    def __init__(self, scale: str, *, runs_dir: str, results_dir: str, jobs: int, strategy: str):
        self.failed = []
        self._scale, self._runs_dir, self._results_dir = scale, runs_dir, results_dir
        self._jobs, self._strategy = jobs, strategy
        self._finished = {}  # path of a config and names of its runs -> those runs

    def make(self, name: str) -> None:
        """Raises ConfigError, OSError, and RunError if required runs are missing."""
        target, configs_of = TARGETS[name], CONFIGS[self._scale]
        wanted = runs_of([name], self._scale)
        made = [
            [one for path in configs_of[kind] for one in self._runs(kind, path, wanted[path])] for kind in target.kinds
        ]
        if not all(made):
            raise RunError("none of its runs succeeded")
        folders = {os.path.join(sweep_folder(self._runs_dir, path), run) for path in wanted for run in wanted[path]}
        missing = [folder for folder in self.failed if folder in folders]
        output = paper_figures.Output(os.path.join(self._results_dir, name), self._scale, missing)
        os.makedirs(output.folder, exist_ok=True)
        target.write(output, *made)
        if not target.is_benchmark:
            files.write(output.path(".json"), json.dumps(_manifest(target, output, made), indent=2) + "\n")
        print(f"{name}: written to {output.path('.*')}", flush=True)

    def _runs(self, kind: str, path: str, wanted: Collection[str]) -> list[Run]:
        if (key := (path, *wanted)) not in self._finished:
            config, split = configs.load(path, []), SPLITS.get(kind, "valid")
            folder = sweep_folder(self._runs_dir, path)
            failed = sweep.run_sweep(
                config,
                folder,
                jobs=self._jobs,
                split=split,
                average=None,
                repeats=5 if kind in _TIMED else 1,
                plots=0,
                strategy=self._strategy,
                title=f"Runs of {path}{' (SCALED DOWN)' if self._scale == 'small' else ''}",
                only=wanted,
            )
            self.failed = list(dict.fromkeys([*self.failed, *(os.path.join(folder, name) for name in failed)]))
            self._finished[key] = [run for run in sweep.finished(config, folder, split) if run.name in wanted]
        return self._finished[key]


def config_paths(names: list[str], scale: str) -> list[str]:
    """Paths of the configs of targets, each once."""
    return list(dict.fromkeys(path for name in names for kind in TARGETS[name].kinds for path in CONFIGS[scale][kind]))


def runs_of(names: list[str], scale: str) -> dict[str, dict[str, Config]]:
    """Path of a config -> name -> its runs that any of the targets needs."""
    wanted = {}
    for name in names:
        for path in config_paths([name], scale):
            runs = expand(configs.load(path, []))
            parts = {run: config for run, config in runs.items() if TARGETS[name].has_part(config)}
            wanted.setdefault(path, {}).update(parts)
    return wanted


def sweep_folder(runs_dir: str, path: str) -> str:
    """The folder of a config's runs, named after the config's folder and file."""
    folder, name = os.path.split(os.path.splitext(path)[0])
    return os.path.join(runs_dir, f"{os.path.basename(folder)}.{name}")


def _manifest(target: Target, output: paper_figures.Output, made: list[list[Run]]) -> dict[str, Any]:
    kept = ("bleu", "step", "commit", "device", "cores", "jit_compile", "repeats")  # of a run's result
    return {
        "scale": output.scale,
        **provenance.conditions(),
        "missing": output.missing,
        "runs": {
            kind: {
                f"{os.path.basename(os.path.dirname(one.folder))}/{one.name}": {
                    "config": configs.to_dict(one.config),
                    **{key: one.result.get(key) for key in kept},
                    "training_seconds": float(one.validations[-1]["seconds"]),
                }
                for one in runs
            }
            for kind, runs in zip(target.kinds, made, strict=True)
        },
    }
