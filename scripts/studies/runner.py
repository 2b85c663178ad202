"""Makes tables and figures by name, training missing runs."""

import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from absl import flags

from memattn import config as configs
from memattn import files
from memattn.config import Config
from memattn.errors import ConfigError, RunError
from memattn.evaluation import formatting
from memattn.runs.result import conditions
from memattn.sweeps import runner as sweep
from memattn.sweeps.runs import SweepRun, expand, finished
from studies import family, kaiser2016, long_texts, speech
from studies.britz2017 import figures, future_work, open_questions, printed, tables, windowed
from studies.output import Output, table_of_runs

RUNS = "runs/reproduce"  # folder of all runs; in configs, `teacher` and `init_from` name runs in it
FOLDERS = {  # kind of runs -> folders of configs/studies, in the order of training, where these are several
    # The last three are a curriculum: each starts from the weights of the one before.
    "arithmetic": ("addition", "multiplication", "addition_columns_5", "addition_columns_10", "addition_columns_20"),
    # Runs on longer examples start from those on single verses.
    "long_texts": ("long_texts", "long_texts_verses", "long_texts_documents", "long_texts_synopses"),
    "windowed_memory": ("windowed_memory", "windowed_memory_200", "windowed_memory_slots"),
}
VALIDATED = ("memory_rows", "figure8")  # kinds of runs on a corpus that are evaluated on its validation split


class Target(NamedTuple):
    """Recipe of a table or figure."""

    kinds: tuple[str, ...]  # of the runs that it needs (see `configs_of`)
    write: Callable[..., None]  # writes the results into an Output, given a list of runs for each kind
    needs: Callable[[Config], bool] = lambda config: True  # whether it needs the run of a config


TITLES = {  # of targets whose table has a row for each run of the kind with the name of the target
    "ablations": "What the paper leaves open about the model: the copy task",
    "training_choices": "What the paper leaves open about training: the copy task",
    "renormalize": "Multi30k English to German: position encodings renormalized",
    "memory_rows": "Multi30k English to German: what the slots of the memory hold",
    "luong_translation": "Multi30k English to German: Luong attention with a lower rate or a scale",
    "longer": "Copy task, L = 40, trained three times as long",
    "spelled": "Multi30k English to German: rare words spelled out, and BPE",
    "baselines_translation": "Multi30k English to German: windowed memory and plain means of stretches",
}
TARGETS = {
    "table1": Target(("table1",), tables.table_1),
    "table2": Target(("translation",), tables.table_2),
    "figure2": Target((), figures.figure_2),
    "figure3": Target(("table1", "scorings"), figures.figure_3),
    "figure4": Target(("translation",), figures.figure_4),
    "figure5": Target(("translation",), figures.figure_5),
    "figure6": Target(("alignments",), figures.figure_6),
    "figure7": Target(("alignments",), figures.figure_7),
    "figure8": Target(("figure8",), figures.figure_8, needs=figures.in_figure_8),
    "first_contexts": Target((), open_questions.first_contexts),
    "slots_by_length": Target(("table1",), open_questions.slots_by_length),
    "errors_by_position": Target(("table1",), open_questions.errors_by_position),
    "slots": Target(("tasks",), future_work.slots),
    "nested_slots": Target(("tasks",), future_work.nested_slots),
    "teacher": Target(("teachers", "taught"), future_work.teacher),
    "teacher_translation": Target(
        ("translation", "taught_translation"),
        future_work.teacher_translation,
        needs=lambda config: bool(config.training.teacher) or future_work.is_compared_with_students(config),
    ),
    "teacher_nine_epochs": Target(
        ("translation", "taught_nine_epochs"),
        table_of_runs("Multi30k: memory attention with a teacher, nine epochs"),
        needs=lambda config: bool(config.training.teacher) or future_work.is_first_teacher(config),
    ),
    "long_sources": Target(("long_sources",), future_work.long_sources),
    "family": Target(("family", "rnnsearch", "family_translation", "rnnsearch_translation"), family.family),
    "rnnsearch_by_length": Target(("rnnsearch_translation",), family.rnnsearch_by_length),
    "arithmetic": Target(("arithmetic",), kaiser2016.arithmetic),
    "memory_length": Target(("memory_length",), kaiser2016.memory_length),
    "active_translation": Target(("active_translation",), kaiser2016.translation),
    "parsing": Target(("parsing",), kaiser2016.parsing),
    "bridge": Target(("bridge", "bridge_translation"), windowed.bridge),
    "windows": Target(("windows",), windowed.windows),
    "baselines": Target(("baselines",), windowed.baselines),
    "long_texts": Target(("long_texts",), long_texts.long_texts),
    "long_texts_decoding": Target(("long_texts",), long_texts.decoding),
    "windowed_memory": Target(("windowed_memory",), windowed.windowed_memory),
    "pace": Target(("pace",), windowed.pace),
    "speech": Target(("speech",), speech.speech),
    "speech_person": Target(("speech", "speech_person"), speech.person, needs=speech.in_fine_tuning),
    **{name: Target((name,), table_of_runs(title)) for name, title in TITLES.items()},
}


def configs_of(kind: str, scale: str) -> list[str]:
    """Returns the paths of the configs of a kind of runs; none if the scale lacks the kind."""
    if kind in ("translation", "figure8") and scale == "paper":
        return [f"configs/wmt17/{pair}.yaml" for pair in printed.TABLE_2_PAIRS]
    paths = [f"configs/studies/{folder}/{scale}.yaml" for folder in FOLDERS.get(kind, (kind,))]
    return [path for path in paths if os.path.exists(path)]


def available(scale: str) -> list[str]:
    """Returns the targets that a scale has. Raises ConfigError if the current folder has no configs."""
    if not os.path.isdir("configs/studies"):
        raise ConfigError("configs/studies: no such folder; run this in the folder that holds configs/")
    return [
        name
        for name, target in TARGETS.items()
        if all(configs_of(kind, scale) for kind in target.kinds) and (target.kinds or scale == "small")
    ]


def check(names: list[str], scale: str) -> None:
    """Raises ConfigError if a corpus is missing."""
    needed = {  # folder of a corpus -> a config that needs it
        run.data.path: path
        for path, runs in runs_of(names, scale).items()
        for run in runs.values()
        if run.data.generated is None
    }
    if missing := [folder for folder in needed if not os.path.isdir(folder)]:
        problems = (f"{folder}: not prepared yet; the head of {needed[folder]} has the command" for folder in missing)
        raise ConfigError("; ".join(problems))


class Reproduction:
    """Makes tables and figures at one scale. A run that several of them need is trained and evaluated once.

    Attributes:
      failed: folders of the failed runs. Tables and figures are made without them, and name them.
    """

    def __init__(self, options: flags.FlagValues):
        self.failed: list[str] = []
        self._options, self._scale = options, options.scale
        self._finished: dict[tuple[str, ...], list[SweepRun]] = {}  # (path of a config, *names of runs) -> these

    def make(self, name: str) -> None:
        """Trains the runs that a target needs, and writes the target.

        Raises ConfigError, OSError, and RunError if no run of a kind succeeded.
        """
        target, wanted = TARGETS[name], runs_of([name], self._scale)
        folder = os.path.join(self._options.results_dir, name, self._scale)
        files.make_folder(folder)
        runs: dict[str, list[SweepRun]] = {kind: [] for kind in target.kinds}
        for kind in runs:
            for path in (path for path in configs_of(kind, self._scale) if path in wanted):
                runs[kind] += self._runs(kind, path, wanted[path])
        if failed := [kind for kind, same in runs.items() if not same]:
            raise RunError(f"no run of {', '.join(failed)} succeeded")
        folders = [os.path.join(sweep_folder(path), run) for path in wanted for run in wanted[path]]
        made = {run.folder for same in runs.values() for run in same}
        output = Output(folder, self._scale, missing=[folder for folder in folders if folder not in made])
        target.write(output, *runs.values())
        files.write(output.path("conditions.json"), json.dumps(_conditions(output, runs), indent=2) + "\n")
        print(f"{name}: written to {output.folder}", flush=True)

    def _runs(self, kind: str, path: str, wanted: Collection[str]) -> list[SweepRun]:
        """Trains and evaluates the wanted runs of a config that have no result yet; returns those that succeeded."""
        key = (path, *wanted)
        if key not in self._finished:
            config, folder = configs.load(path, []), sweep_folder(path)
            split = "valid" if config.data.generated or kind in VALIDATED else "test"
            failed = sweep.run_sweep(
                config,
                folder,
                jobs=self._options.jobs,
                split=split,
                average=None,
                repeats=1,
                num_plots=0,
                strategy="auto",
                title=f"Runs of {path}{' (scaled down)' if self._scale == 'small' else ''}",
                only=wanted,
            )
            self.failed = list(dict.fromkeys([*self.failed, *(os.path.join(folder, name) for name in failed)]))
            self._finished[key] = [
                run for run in finished(config, folder, split) if run.name in wanted and run.name not in failed
            ]
        return self._finished[key]


def runs_of(names: list[str], scale: str) -> dict[str, dict[str, Config]]:
    """Returns the runs that targets need: path of a config -> name of a run -> its config."""
    wanted: dict[str, dict[str, Config]] = {}
    for target in (TARGETS[name] for name in names):
        for path in (path for kind in target.kinds for path in configs_of(kind, scale)):
            runs = expand(configs.load(path, []))
            needed = {name: config for name, config in runs.items() if target.needs(config)}
            if needed:
                wanted.setdefault(path, {}).update(needed)
    return wanted


def listing(names: list[str], scale: str) -> str:
    """Returns the runs of targets as a Markdown table, and what the head of each config says of its cost."""
    wanted = runs_of(names, scale)
    rows = [
        {"config": path, "run": name, "training steps": f"{config.training.max_steps:,}"}
        for path, runs in wanted.items()
        for name, config in runs.items()
    ]
    if not rows:
        return f"{', '.join(names)}: nothing is trained"
    heads = {path: files.read_text(path) for path in wanted}
    costs = [f"- all of {path}: {re.findall('^# Cost: (.*)', head, re.MULTILINE)[0]}" for path, head in heads.items()]
    total = f"{len(rows)} runs, many of which end before their last step."
    return "\n".join([formatting.markdown(rows), total, *costs])


def sweep_folder(path: str) -> str:
    """Returns the folder of a config's runs, such as RUNS/table1.small for configs/studies/table1/small.yaml."""
    folder, name = os.path.split(os.path.splitext(path)[0])
    return os.path.join(RUNS, f"{os.path.basename(folder)}.{name}")


def _conditions(output: Output, runs: Mapping[str, list[SweepRun]]) -> dict[str, Any]:
    """Returns the machine, versions and runs (by kind) that a table or figure was made with."""
    runs_by_kind = {
        kind: {f"{os.path.basename(os.path.dirname(run.folder))}/{run.name}": _run_conditions(run) for run in same}
        for kind, same in runs.items()
    }
    return {"scale": output.scale, **conditions(), "missing": output.missing, "runs": runs_by_kind}


def _run_conditions(run: SweepRun) -> dict[str, Any]:
    names = ("step", "commit", "device", "cores", "jit_compile", "repeats")
    return {
        "config": configs.to_dict(run.config),
        "bleu": run.result.scores["bleu"],
        **{name: getattr(run.result, name) for name in names},
        "training_seconds": float(run.validations[-1]["seconds"]),
    }
