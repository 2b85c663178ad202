"""The runs of a sweep, each a config of its own."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from memattn.config import Config, Origin, SweepConfig, apply_changes, checked, to_dict
from memattn.errors import ConfigError, short

_MOST_RUNS = 10_000  # which are compared with each other


def expand(config: Config) -> dict[str, Config]:
    """The runs of a sweep: name -> configuration; cells come first, then the union of the grids. Raises ConfigError."""
    return {name: run for name, (run, _) in _expanded(config).items()}


def changes(config: Config) -> dict[str, dict[str, Any]]:
    """What sets the runs of a sweep apart: name -> dotted keys with their values. Raises ConfigError."""
    return {name: changed for name, (_, changed) in _expanded(config).items()}


def _expanded(config: Config) -> dict[str, tuple[Config, dict[str, Any]]]:
    sweep = config.sweep or SweepConfig()
    combined = sum(map(_number, sweep.grids)) + len(sweep.cells) or 1
    if (number := combined * _number(sweep.grid)) > _MOST_RUNS:
        raise ConfigError(f"sweep: has {number:,} runs; at most {_MOST_RUNS:,}")
    base = to_dict(config)
    union = list(itertools.chain.from_iterable(map(_points, sweep.grids)))
    runs = {}
    for i, cell in enumerate([*sweep.cells, *union] or [{}]):
        for point in _points(sweep.grid):
            changed = {**cell, **point}
            name = run_name(changed) or "run"
            run = checked(apply_changes(base, changed), Origin(f"sweep run {short(name)}"))
            if name in runs and runs[name][0] != run:
                name = run_name(changed, whole_keys=True)
            same = next((known for known, (its, _) in runs.items() if known == name or its == run), None)
            if same is None:
                runs[name] = run, changed
            elif runs[same][0] != run:
                raise ConfigError(f"sweep: two different runs are both named {short(name)}")
            elif not union or i < len(sweep.cells):
                raise ConfigError(
                    f"sweep: two of its runs are the same: {' and '.join(map(short, dict.fromkeys([same, name])))}"
                )
    return runs


def _number(grid: Mapping[str, list]) -> int:
    """The number of points of a grid."""
    return math.prod(map(len, grid.values()))


def _points(grid: Mapping[str, list]) -> Iterator[dict[str, Any]]:
    """Every combination of a grid's values, the last key's changing first."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def run_name(changed: Mapping[str, Any], *, whole_keys: bool = False) -> str:
    """A name for changes that can be a folder's: the last part of each key with its value, mappings written out."""
    parts = []
    for key, value in changed.items():
        written = key if whole_keys else key.rpartition(".")[2]
        pairs = value.items() if isinstance(value, Mapping) else [(written, value)]
        parts += [str(v) if k == "name" else f"{k}={v}" for k, v in pairs]
    name = "-".join(parts).replace("/", "_").replace(" ", "")
    return "".join(character if character.isprintable() else "_" for character in name)
