"""Tables of the runs of a sweep, single and averaged over seeds, with a picture of their learning curves."""

import contextlib
import json
import os
import statistics
from collections.abc import Mapping
from typing import Any

from memattn import console, files
from memattn.config import Config, to_dict
from memattn.evaluation import formatting, plots
from memattn.evaluation.metrics import METRICS, Metric
from memattn.evaluation.result import Result
from memattn.runs.provenance import conditions
from memattn.sweeps.expand import expand, run_name
from memattn.sweeps.results import Run


def write(config: Config, runs: list[Run], failed: dict[str, str], sweep_dir: str, title: str) -> None:
    """Writes table.csv, table.md and manifest.json, and of runs with a result also seeds.csv and learning_curves.png.

    `failed` says why other runs have no result.
    """
    done = {run.name: row(run.name, run.config, run.result, run.validations) for run in runs}
    rows = [done.get(name) or failed_row(name, failed[name]) for name in expand(config)]
    columns = dict.fromkeys(column for row in [*done.values(), *rows] for column in row)  # that of failures is last
    rows = [{**dict.fromkeys(columns, ""), **row} for row in rows]
    files.write_csv(os.path.join(sweep_dir, "table.csv"), rows)
    markdown = formatting.markdown(rows)
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(sweep_dir, "seeds.csv"))  # of an earlier sweep
    settings = [run.config for run in runs], [run.changes for run in runs]
    if seeds := over_seeds(list(done.values()), *settings):
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
        groups = seed_groups(list(done), *settings)
        curves = {
            name: at_common_steps([dict(runs[place].curve) for place in places]) for name, places in groups.items()
        }
        plots.learning_curves(os.path.join(sweep_dir, "learning_curves.png"), curves, title)
    written = ["table.csv", "table.md", *["seeds.csv"] * bool(seeds), *["learning_curves.png"] * bool(runs)]
    console.say(f"\n{title}\n\n{markdown}\nwritten to {sweep_dir}: {', '.join([*written, 'manifest.json'])}")


def row(name: str, config: Config, result: Result, validations: list[dict[str, str]]) -> dict[str, Any]:
    """A run's row of the table."""
    scores = {}
    for metric, entry in _shown().items():
        has_score = metric in result.scores and not (entry.needs_detokenized and config.data.generated)
        scores[_column(entry)] = f"{result.scores[metric]:{entry.form}}" if has_score else ""
    return {
        "run": name,
        **scores,
        "decode s": f"{result.decode_seconds:.3g}",
        "decode s min-max": result.time_range,
        "sentences": result.sentences,
        "parameters": result.parameters,
        "best step": result.step,
        "steps": validations[-1]["step"],
        "training s": validations[-1]["seconds"],
    }


def _shown() -> dict[str, Metric]:
    return {name: metric for name, metric in METRICS.items() if metric.is_reported}


def _column(metric: Metric) -> str:
    return f"{metric.title} {metric.unit}".rstrip()


def failed_row(name: str, reason: str) -> dict:
    """The row of a run without a result, which says why it has none."""
    return {"run": name, "failed": reason.replace("|", "/")}


def seed_groups(names: list[str], configs: list[Config], changes: list[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Places of the runs whose configs differ only in `training.seed`, by a label.

    It is the name of what all runs of a group change, without the seed. Where that is the name of other runs, it is the
    name of the first run.
    """
    groups = {}
    for place, config in enumerate(configs):
        settings = to_dict(config)
        del settings["training"]["seed"]
        groups.setdefault(json.dumps(settings, sort_keys=True), []).append(place)
    labelled = {}
    for places in groups.values():
        first = places[0]
        members = [changes[place].items() for place in places]
        shared = {key: value for key, value in members[0] if all((key, value) in items for items in members)}
        shared.pop("training.seed", None)
        label = run_name(shared) or "all"
        taken = {name for place, name in enumerate(names) if place not in places} | labelled.keys()
        labelled[names[first] if len(places) == 1 or label in taken else label] = places
    return labelled


def over_seeds(rows: list[dict], configs: list[Config], changes: list[Mapping[str, Any]]) -> list[dict]:
    """Means and ranges of rows whose configs differ only in `training.seed`; none if no two do."""
    groups = seed_groups([row["run"] for row in rows], configs, changes)
    if len(groups) == len(rows):
        return []
    columns = {_column(metric): metric.form for metric in _shown().values()}
    columns |= {"decode s": ".3f", "training s": ".0f"}
    summary = []
    for name, places in groups.items():
        line = {"run": name, "seeds": len(places)}
        for column, form in columns.items():
            values = [float(value) for place in places if (value := rows[place].get(column, "")) != ""]
            line[f"{column} mean"] = f"{statistics.mean(values):{form}}" if values else ""
            line[f"{column} min-max"] = formatting.extent(values, form) if values else ""
        summary.append(line)
    return summary


def at_common_steps(curves: list[dict[int, float]]) -> dict[int, list[float]]:
    """BLEU of each learning curve (step -> BLEU) at the steps that all have."""
    return {step: [curve[step] for curve in curves] for step in sorted(set.intersection(*map(set, curves)))}
