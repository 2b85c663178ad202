"""Writes the tables of a sweep, one of its runs and one of means over seeds, and draws the learning curves."""

import contextlib
import json
import math
import os
import statistics
from typing import Any

from memattn import console, files
from memattn.config import Config, to_dict
from memattn.evaluation import formatting, plots, styles
from memattn.evaluation.metrics import REPORTED, Metric
from memattn.runs.result import conditions
from memattn.sweeps.runs import SweepRun, expand, run_name


def write(config: Config, runs: list[SweepRun], failed: dict[str, str], sweep_dir: str, title: str) -> None:
    """Writes table.csv, table.md, manifest.json and, if there are runs, learning_curves.png.

    Writes seeds.csv, too, if runs differ only in `training.seed`. `failed` says why other runs have no result.
    """
    done = {run.name: row(run) for run in runs}
    rows = [done.get(name) or {"run": name, "failed": failed[name]} for name in expand(config)]
    columns = dict.fromkeys(column for cells in [*done.values(), *rows] for column in cells)  # "failed" comes last
    rows = [{**dict.fromkeys(columns, ""), **cells} for cells in rows]
    files.write_csv(os.path.join(sweep_dir, "table.csv"), rows)
    markdown = formatting.markdown(rows)
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(sweep_dir, "seeds.csv"))  # an earlier sweep may have written one
    if seeds := over_seeds(runs):
        files.write_csv(os.path.join(sweep_dir, "seeds.csv"), seeds)
        markdown += f"\nOver seeds:\n\n{formatting.markdown(seeds)}"
    files.write(os.path.join(sweep_dir, "table.md"), f"{title}\n\n{markdown}")
    manifest = {
        "title": title,
        **conditions(),
        "configs": {run.name: to_dict(run.config) for run in runs},
        "failed": failed,
    }
    files.write(os.path.join(sweep_dir, "manifest.json"), json.dumps(manifest, indent=2) + "\n")
    if runs:
        curves = [curve(name, group) for name, group in by_name_in_words(seed_groups(runs)).items()]
        plots.learning_curves(os.path.join(sweep_dir, "learning_curves.png"), curves, title)
    console.say(f"\n{title}\n\n{markdown}\nwritten to {sweep_dir}")


def row(run: SweepRun) -> dict[str, Any]:
    result = run.result
    return {
        "run": run.name,
        **{column: "" if score is None else f"{score:{_FORMS[column]}}" for column, score in _scores(run).items()},
        "decode s": f"{result.decode_seconds:.3g}",
        "decode s min-max": result.time_range,
        "sentences": result.sentences,
        "parameters": result.parameters,
        "best step": result.step,
        "steps": run.validations[-1]["step"],
        "training s": run.validations[-1]["seconds"],
    }


def _scores(run: SweepRun) -> dict[str, float | None]:
    """Returns a run's scores by column; None where the cell is empty: of text in generated tasks, of older results."""
    scores: dict[str, float | None] = {}
    for name, metric in REPORTED.items():
        if metric.kind in ("any", "text") or name in run.result.scores:  # other tasks have no column for it
            is_wanted = metric.kind != "text" or not run.config.data.generated
            scores[_column(metric)] = run.result.scores.get(name) if is_wanted else None
    return scores


def _column(metric: Metric) -> str:
    return f"{metric.title} {metric.unit}".rstrip()


_FORMS = {_column(metric): metric.form for metric in REPORTED.values()}  # formats of scores, by column


def seed_groups(runs: list[SweepRun]) -> dict[str, list[SweepRun]]:
    """Groups runs whose configs differ only in `training.seed`, by a label.

    The label names the changes of the first run, without the seed. It is the first run's name if the group has a single
    run, or if another run or group has that label.
    """
    groups: dict[str, list[SweepRun]] = {}
    for run in runs:
        settings = to_dict(run.config)
        del settings["training"]["seed"]
        groups.setdefault(json.dumps(settings, sort_keys=True), []).append(run)
    groups_by_label: dict[str, list[SweepRun]] = {}
    for group in groups.values():
        label = run_name({key: value for key, value in group[0].changes.items() if key != "training.seed"}) or "all"
        members = [run.name for run in group]
        taken = {run.name for run in runs if run.name not in members} | groups_by_label.keys()
        if len(group) == 1 or label in taken:
            label = members[0]
        groups_by_label[label] = group
    return groups_by_label


def over_seeds(runs: list[SweepRun]) -> list[dict]:
    """Returns means and ranges over runs whose configs differ only in `training.seed`; [] if there are no such runs."""
    groups = seed_groups(runs)
    if len(groups) == len(runs):
        return []
    cells = {
        run.name: {
            **_scores(run),
            "decode s": run.result.decode_seconds,
            "training s": float(run.validations[-1]["seconds"]),
        }
        for run in runs
    }
    columns = {column: form for column, form in _FORMS.items() if any(column in of_run for of_run in cells.values())}
    columns |= {"decode s": ".3g", "training s": ".0f"}
    summary = []
    for label, group in groups.items():
        summary_row = {"run": label, "seeds": len(group)}
        for column, form in columns.items():
            values = [value for run in group if (value := cells[run.name].get(column)) is not None]
            summary_row[f"{column} mean"] = f"{statistics.mean(values):{form}}" if values else ""
            summary_row[f"{column} min-max"] = formatting.extent(values, form) if values else ""
        summary.append(summary_row)
    return summary


def by_name_in_words(groups: dict[str, list[SweepRun]]) -> dict[str, list[SweepRun]]:
    """Returns groups of runs by their attention, such as "memory, K = 32"; by their labels where several have it."""
    words = [styles.words(styles.attention(runs[0].config)) for runs in groups.values()]
    return {
        name if words.count(name) == 1 else label: runs
        for name, (label, runs) in zip(words, groups.items(), strict=True)
    }


def curve(name: str, runs: list[SweepRun], metric: str = "bleu") -> plots.Line:
    """Returns the learning curve of runs that differ in seed, as `mean_and_range` joins them."""
    points = mean_and_range([dict(run.curve(metric)) for run in runs])
    return plots.Line(name, styles.attention(runs[0].config), points)


def mean_and_range(curves: list[dict[int, float]]) -> dict[int, plots.Point]:
    """Returns the mean, the least and the greatest score at each step from which on all curves have one.

    A curve keeps a score until its next step; after its last step, it keeps the last score.
    """
    points = {}
    first = max(min(curve, default=math.inf) for curve in curves)
    for step in sorted({step for curve in curves for step in curve if step >= first}):
        scores = [curve[max(earlier for earlier in curve if earlier <= step)] for curve in curves]
        points[step] = statistics.mean(scores), min(scores), max(scores)
    return points
