"""The runs of a sweep, each a config of its own."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from memattn.config.config import Config, SweepConfig, apply_changes, checked, to_dict
from memattn.config.schema import Source
from memattn.errors import ConfigError


def expand(config: Config) -> dict[str, Config]:
    """The runs of a sweep: name -> configuration; cells come first, then the union of the grids. Raises ConfigError."""
    sweep = config.sweep or SweepConfig()
    base = to_dict(config)
    union = list(itertools.chain.from_iterable(map(_points, sweep.grids)))
    runs = {}
    for i, cell in enumerate([*sweep.cells, *union] or [{}]):
        for point in _points(sweep.grid):
            changes = {**cell, **point}
            name = _run_name(changes) or "run"
            run = checked(apply_changes(base, changes), Source(f"sweep run {name}"))
            if runs.get(name, run) != run:
                name = _run_name(changes, whole_keys=True)
            same = next((other for other, its in runs.items() if other == name or its == run), None)
            if same is None:
                runs[name] = run
            elif runs[same] != run:
                raise ConfigError(f"sweep: two different runs are both named {name}")
            elif not union or i < len(sweep.cells):
                raise ConfigError(f"sweep: two of its runs are the same: {' and '.join(dict.fromkeys([same, name]))}")
    return runs


def _points(grid: Mapping[str, list]) -> Iterator[dict[str, Any]]:
    """Every combination of a grid's values, the last key's changing first."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _run_name(changes: Mapping[str, Any], *, whole_keys: bool = False) -> str:
    """Usable as a folder, and mostly short: the last part of each key with its value, mappings written out."""
    parts = []
    for key, value in changes.items():
        own = key if whole_keys else key.rpartition(".")[2]
        pairs = value.items() if isinstance(value, Mapping) else [(own, value)]
        parts += [str(v) if k == "name" else f"{k}={v}" for k, v in pairs]
    return "-".join(parts).replace("/", "_").replace(" ", "")
