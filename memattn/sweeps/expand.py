"""Expands the config of a sweep into the configs of its runs."""

import itertools
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from memattn.config import Config, Origin, SweepConfig, apply_changes, checked, to_dict
from memattn.errors import ConfigError, short

_LONGEST_NAME = 250  # bytes of a run's name; with the ending .lock or .yaml, file systems take 255
_MOST_RUNS = 10_000


def expand(config: Config) -> dict[str, Config]:
    """Returns the configs of a sweep's runs by name: first those of the cells, then those of the grids.

    Raises ConfigError.
    """
    return {name: run for name, (run, _) in _expanded(config).items()}


def changes(config: Config) -> dict[str, dict[str, Any]]:
    """Returns each run's changes to the sweep's config by name: dotted keys with values. Raises ConfigError."""
    return {name: changes for name, (_, changes) in _expanded(config).items()}


def _expanded(config: Config) -> dict[str, tuple[Config, dict[str, Any]]]:
    """Returns the config and the changes of each run by name. Raises ConfigError."""
    sweep = config.sweep or SweepConfig()
    num_cells = sum(map(_num_points, sweep.grids)) + len(sweep.cells) or 1
    if (num_runs := num_cells * _num_points(sweep.grid)) > _MOST_RUNS:
        raise ConfigError(f"sweep: has {num_runs:,} runs; at most {_MOST_RUNS:,}")
    base = to_dict(config)
    grid_points = list(itertools.chain.from_iterable(map(_points, sweep.grids)))
    runs: dict[str, tuple[Config, dict[str, Any]]] = {}
    names: dict[str, str] = {}  # a run's settings, as text -> its name
    for i, cell in enumerate([*sweep.cells, *grid_points] or [{}]):
        for point in _points(sweep.grid):
            changes = {**cell, **point}
            name = run_name(changes) or "run"
            run = checked(apply_changes(base, changes), Origin(f"sweep run {short(name)}"))
            if name in runs and runs[name][0] != run:
                name = run_name(changes, full_keys=True)
            settings = json.dumps(to_dict(run), sort_keys=True)
            earlier = name if name in runs else names.get(settings)
            if earlier is None:
                if len(os.fsencode(name)) > _LONGEST_NAME:
                    raise ConfigError(f"sweep: the run {short(name)} has too long a name for a folder; shorten values")
                runs[name] = run, changes
                names[settings] = name
            elif runs[earlier][0] != run:
                raise ConfigError(f"sweep: two different runs are both named {short(name)}")
            elif not grid_points or i < len(sweep.cells):  # several grids may share points
                same = map(short, dict.fromkeys([earlier, name]))
                raise ConfigError(f"sweep: two of its runs are the same: {' and '.join(same)}")
    return runs


def _num_points(grid: Mapping[str, list]) -> int:
    return math.prod(map(len, grid.values()))


def _points(grid: Mapping[str, list]) -> Iterator[dict[str, Any]]:
    """Yields all combinations of a grid's values; the last key varies fastest."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def labelled_values(changes: Mapping[str, Any], *, full_keys: bool = False) -> Iterator[tuple[str, Any]]:
    """Yields labels and values of changes: the last part of a key, or the full key; of a mapping, its items.

    Without `full_keys`, the name of a mechanism outside the package, module:Class, is the last part of its module.
    """
    for key, value in changes.items():
        pairs = value.items() if isinstance(value, Mapping) else [(key if full_keys else key.rpartition(".")[2], value)]
        for label, item in pairs:
            is_reference = label == "name" and ":" in str(item) and not full_keys
            yield label, item.partition(":")[0].rpartition(".")[2] if is_reference else item


def run_name(changes: Mapping[str, Any], *, full_keys: bool = False) -> str:
    """Returns a name for changes that a folder can have, such as "memory-num_slots=4-seed=1".

    A value stands after its label, that of a `name` alone; see `labelled_values`.
    """
    values = labelled_values(changes, full_keys=full_keys)
    parts = [str(value) if label == "name" else f"{label}={value}" for label, value in values]
    name = "-".join(parts).replace("/", "_").replace(" ", "")
    name = re.sub(r"[*?\[\]\\]", "", name)  # a folder's name must be no pattern for TensorFlow
    return "".join(character if character.isprintable() else "_" for character in name)
