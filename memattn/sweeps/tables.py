"""Results of runs as rows of a table, single or averaged over seeds."""

import json
import statistics
from collections.abc import Mapping
from typing import Any

from memattn.config import Config, to_dict
from memattn.evaluation import formatting
from memattn.sweeps.expand import run_name


def row(name: str, config: Config, result: dict, validations: list[dict]) -> dict:
    """A run's row of the table."""
    return {
        "run": name,
        "BLEU": f"{result['bleu']:.2f}",
        "sacreBLEU": f"{result['sacrebleu']:.2f}" if config.data.generated is None else "",
        "chrF": f"{result['chrf']:.2f}" if config.data.generated is None and "chrf" in result else "",
        "exact match %": f"{result['exact_match']:.1f}",
        "decode s": f"{result['decode_seconds']:.3g}",
        "decode s min-max": formatting.spread(result),
        "sentences": result["sentences"],
        "parameters": result["parameters"],
        "best step": result["step"],
        "steps": validations[-1]["step"],
        "training s": validations[-1]["seconds"],
    }


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
    summary = []
    for name, places in groups.items():
        line = {"run": name, "seeds": len(places)}
        for column, digits in (("BLEU", 2), ("sacreBLEU", 2), ("chrF", 2), ("decode s", 3), ("training s", 0)):
            values = [float(rows[place][column]) for place in places if rows[place][column] != ""]
            line[f"{column} mean"] = f"{statistics.mean(values):.{digits}f}" if values else ""
            line[f"{column} min-max"] = formatting.extent(values, f".{digits}f") if values else ""
        summary.append(line)
    return summary


def at_common_steps(curves: list[dict[int, float]]) -> dict[int, list[float]]:
    """BLEU of each learning curve (step -> BLEU) at the steps that all have."""
    return {step: [curve[step] for curve in curves] for step in sorted(set.intersection(*map(set, curves)))}
