"""Writes the report of runs as one HTML file, which loads nothing: style, script, charts and data are inside."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
import numpy as np
import yaml

from memattn import config as configs
from memattn.evaluation import model_card, styles
from memattn.evaluation.metrics import METRICS, REPORTED
from memattn.plain_values import as_yaml, differences
from memattn.reports import charts
from memattn.reports.examples import Attention, Example, by_test_set
from memattn.reports.runs import ReportedRun, evaluation_command
from memattn.runs.result import Result

_DASHES = {"-": "none", "--": "6 3", "-.": "8 3 2 3", ":": "2 3"}  # lengths on and off in SVG, as in the charts
_NONE = "–"


class Row(NamedTuple):
    """A row of a table: its heading, a note that holds for all runs, and a cell for each run."""

    heading: str
    note: str
    cells: list[str]


def page(runs: Sequence[ReportedRun], examples: list[list[Example]], split: str) -> str:
    """Returns the report of runs as HTML.

    Args:
      runs: one run or several.
      examples: example translations of each test set; none to leave them out.
      split: name of the test sets.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.dirname(__file__)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"as_data": _as_data, "has_slots": _has_slots}
    buckets = charts.buckets(runs)
    lines = styles.line_styles([styles.attention(run.config) for run in runs])
    return environment.get_template("page.html").render(
        split=split,
        names=[run.folder for run in runs],
        strokes={
            run.folder: {"colour": colour, "dashes": _DASHES[dash]}
            for run, (colour, dash) in zip(runs, lines, strict=True)
        },
        rows=_rows(runs),
        differing=_differing(runs),
        unevaluated=[
            {"name": run.folder, "command": evaluation_command(run.folder, split)} for run in runs if run.result is None
        ],
        curves=charts.learning_curves(runs),
        by_length=charts.by_length(runs, buckets) if any(run.result for run in runs) else None,
        buckets=buckets,
        test_sets=by_test_set(runs),
        examples=examples,
        conditions={run.folder: _conditions(run) for run in runs},
        settings={run.folder: yaml.safe_dump(_config(run), sort_keys=False) for run in runs},
    )


def _as_data(attention: Attention) -> dict[str, Any]:
    """Returns attention weights as a mapping that JSON can hold, in thousandths."""
    matrices = {name: np.nan_to_num(getattr(attention, name)) for name in ("weights", "reads", "alpha")}
    thousandths = {name: np.rint(1000 * matrix).astype(int).tolist() for name, matrix in matrices.items()}
    return {"slots": attention.slots, **thousandths}


def _has_slots(examples: list[Example]) -> bool:
    """Returns whether a translation of the examples read memory slots."""
    attentions = [translation.attention for example in examples for translation in example.translations]
    return any(attention and attention.slots for attention in attentions)


def _rows(runs: Sequence[ReportedRun]) -> list[Row]:
    """Returns the table of scores, times and sizes."""
    results = [run.result for run in runs]
    words = [styles.words(styles.attention(run.config)) for run in runs]
    rows = [Row("mechanism", "", words)]
    for name, metric in REPORTED.items():
        if any(result and name in result.scores for result in results):
            signatures = {result.signatures.get(name, "") for result in results if result}
            note = signatures.pop() if len(signatures) == 1 else ""
            rows.append(Row(metric.title, note, [_score(result, name, with_signature=not note) for result in results]))
    columns = {
        "decode time": lambda result: f"{result.decode_seconds:.3g} s ({result.time_range})",
        "sentences a second": lambda result: f"{result.sentences_per_second:,.1f}",
        "search": model_card.search,
        "parameters": lambda result: f"{result.parameters:,}",
        "training step": lambda result: f"{result.step:,}",
    }
    for heading, text in columns.items():
        rows.append(Row(heading, "", [text(result) if result else _NONE for result in results]))
    return rows


def _score(result: Result | None, name: str, *, with_signature: bool) -> str:
    if result is None or name not in result.scores:
        return _NONE
    score = METRICS[name].with_unit(result.scores[name])
    signature = result.signatures.get(name) if with_signature else None
    return f"{score} ({signature})" if signature else score


def _differing(runs: Sequence[ReportedRun]) -> list[Row]:
    """Returns the keys in which the configs of the runs differ, with the value of each run."""
    trees = [_config(run) for run in runs]
    keys = dict.fromkeys(difference.key for tree in trees[1:] for difference in differences(trees[0], tree))
    return [Row(key, "", [_value(tree, key) for tree in trees]) for key in keys]


def _config(run: ReportedRun) -> dict[str, Any]:
    """Returns the config of a run's evaluation as plain values; that of the run if it was not evaluated."""
    config = configs.from_dict(run.result.config) if run.result else run.config
    return configs.to_dict(config)


def _value(tree: Mapping[str, Any], key: str) -> str:
    """Returns the value of a dotted key as YAML."""
    value: Any = tree
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _NONE
        value = value[part]
    return as_yaml(value)


def _conditions(run: ReportedRun) -> dict[str, str]:
    """Returns the conditions of a run's evaluation, by name, such as "seed"."""
    if (result := run.result) is None:
        return {"seed": str(run.config.training.seed)}
    return {"seed": str(result.seed), "training data": result.trained_on, **model_card.conditions(result)}
