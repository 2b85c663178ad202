"""The runs of a sweep: their configs, their names, and the results in their folders."""

import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from memattn.config import Config, SweepConfig, apply_changes, from_dict, to_dict
from memattn.errors import ConfigError, short
from memattn.runs import checkpoints
from memattn.runs.result import Result
from memattn.runs.run import Run, is_best


def expand(config: Config) -> dict[str, Config]:
    """Returns the configs of a sweep's runs by name, those of cells before those of grids. Raises ConfigError."""
    return {name: run for name, (run, _) in expand_with_changes(config).items()}


def expand_with_changes(config: Config) -> dict[str, tuple[Config, dict[str, Any]]]:
    """Returns the config of each run by name, and its changes to the sweep's: dotted keys with values."""
    sweep = config.sweep or SweepConfig()
    base = to_dict(config)
    grid_points = list(itertools.chain.from_iterable(map(_points, sweep.grids)))
    runs: dict[str, tuple[Config, dict[str, Any]]] = {}
    for i, cell in enumerate([*sweep.cells, *grid_points] or [{}]):
        may_repeat = grid_points and i >= len(sweep.cells)  # several grids may have a point in common
        for point in _points(sweep.grid):
            changes = {**cell, **point}
            name = run_name(changes) or "run"
            run = from_dict(apply_changes(base, changes), name=f"sweep run {short(name)}")
            if name in runs and runs[name][0] != run:
                name = run_name(changes, full_keys=True)
            earlier = name if name in runs else next((other for other in runs if runs[other][0] == run), None)
            if earlier is None:
                runs[name] = run, changes
            elif runs[earlier][0] != run or not may_repeat:
                same = " and ".join(map(short, dict.fromkeys([earlier, name])))
                raise ConfigError(f"sweep: two of its runs are the same, or have the same name: {same}; change one")
    return runs


def _points(grid: Mapping[str, list]) -> Iterator[dict[str, Any]]:
    """Yields all combinations of a grid's values; the last key varies fastest."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def run_name(changes: Mapping[str, Any], *, full_keys: bool = False) -> str:
    """Returns a name for changes that a folder can have, such as "memory-num_slots=4-seed=1".

    A value stands after the last part of its key, or the full key; that of a `name` alone. A mapping gives its items.
    Without `full_keys`, the name of a mechanism outside the package, module:Class, is the last part of its module.
    """
    parts = []
    for key, value in changes.items():
        pairs = value.items() if isinstance(value, Mapping) else [(key if full_keys else key.rpartition(".")[2], value)]
        for label, item in pairs:
            if label == "name" and isinstance(item, str) and ":" in item and not full_keys:
                item = item.partition(":")[0].rpartition(".")[2]
            parts.append(str(item) if label == "name" else f"{label}={item}")
    name = "-".join(parts).replace("/", "_").replace(" ", "")
    name = re.sub(r"[*?\[\]\\]", "", name)  # a folder's name must be no pattern for TensorFlow
    return "".join(character if character.isprintable() else "_" for character in name)


class SweepRun(NamedTuple):
    """A trained and evaluated run of a sweep; `changes` are its changes to the sweep's config, by dotted key."""

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
    runs = []
    for name, (run_config, changes) in expand_with_changes(config).items():
        run = Run(os.path.join(sweep_dir, name))
        if result := result_of(run, run_config, split, average):
            runs.append(SweepRun(name, run.folder, run_config, result, run.validations, changes))
    return runs


def result_of(run: Run, config: Config, split: str, average: int | None) -> Result | None:
    """Returns the result of a run; None if there is none for exactly this config, split and choice of checkpoints."""
    try:
        result = run.result(split)
        if result is None:
            return None
        stored = from_dict(result.config)  # adds the defaults of keys that are newer than the result
    except (OSError, ValueError):
        return None
    are_best = [is_best(path) for path in result.checkpoints]
    is_asked = result.split == split and are_best == ([False] * average if average else [True])
    return result if stored == config and is_asked else None


def is_done(run: Run, config: Config, split: str, average: int | None) -> bool:
    """Returns whether the training of a run has ended, and its best checkpoint has a result: with `average`, its last.

    A run whose checkpoints were removed counts as ended.
    """
    result = result_of(run, config, split, average)
    if result is None:
        return False
    progress = checkpoints.stored_state(run.checkpoints, "progress")
    if progress and not json.loads(progress)["finished"]:
        return False
    path = result.checkpoints[0]
    kept = checkpoints.newest_first(run.best if is_best(path) else run.checkpoints)
    return not kept or os.path.basename(path) == os.path.basename(kept[0])
