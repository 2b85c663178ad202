"""Writes the report of runs as one HTML file, which loads nothing: style, script, charts and data are inside."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from memattn import config as configs
from memattn.evaluation import metrics, model_card, plots, styles
from memattn.evaluation.metrics import METRICS, REPORTED, Comparison
from memattn.plain_values import as_yaml, differences, dump
from memattn.reports.content import Attention, Example, ReportedRun, by_test_set, evaluation_command
from memattn.runs.result import Result

_BUCKETS = 5  # number of buckets of source lengths
_INCHES = (4.6, 3.1)  # narrow, so that text stays readable on a phone
_DASHES = {"-": "none", "--": "6 3", "-.": "8 3 2 3", ":": "2 3"}  # lengths on and off in SVG, as in the charts
_NONE = "–"


class Row(NamedTuple):
    """A row of a table: its heading, a note that holds for all runs, and a cell for each run."""

    heading: str
    note: str
    cells: list[str]


def page(runs: Sequence[ReportedRun], examples: list[list[Example]], split: str) -> str:
    """Returns the report of runs as HTML, with example translations of each test set, if there are any."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.dirname(__file__)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"as_data": _as_data, "has_slots": _has_slots}
    buckets = length_buckets(runs)
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
            {"name": run.folder, "command": evaluation_command(run, split)} for run in runs if run.result is None
        ],
        curves=learning_curves(runs),
        by_length=by_length(runs, buckets) if any(run.result for run in runs) else None,
        buckets=buckets,
        test_sets=by_test_set(runs),
        examples=examples,
        conditions={run.folder: _conditions(run) for run in runs},
        settings={run.folder: dump(_config(run)) for run in runs},
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
        "search": model_card.search_in_words,
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
    return {"seed": str(result.seed), "training data": result.trained_on, **model_card.conditions_in_words(result)}


class Chart(NamedTuple):
    """A heading, a picture in SVG, and what it shows in words."""

    title: str
    words: str
    svg: str


class Bucket(NamedTuple):
    """Sources of some lengths."""

    lengths: str  # the least and the greatest number of tokens
    # for each run, BLEU on tokens and the number of sources of these lengths in its test set. BLEU is None if the run
    # was not evaluated or has no such sources
    scores: list[tuple[float | None, int]]


def learning_curves(runs: Sequence[ReportedRun]) -> list[Chart]:
    """Draws each metric of the validations against training steps."""
    charts = []
    for name, metric in METRICS.items():
        if any(name in run.curves for run in runs):
            title = f"{metric.title}{' in %' if metric.unit else ''}"
            charts.append(_chart(title, "training step", runs, [run.curves.get(name, {}) for run in runs]))
    return charts


def by_length(runs: Sequence[ReportedRun], buckets: list[Bucket]) -> Chart:
    """Draws the BLEU of buckets of source lengths."""
    points = [
        {number: bleu for number, bucket in enumerate(buckets) if (bleu := bucket.scores[index][0]) is not None}
        for index in range(len(runs))
    ]
    return _chart("BLEU", "source length in tokens", runs, points, [bucket.lengths for bucket in buckets])


def length_buckets(runs: Sequence[ReportedRun]) -> list[Bucket]:
    """Returns buckets with about equally many sources of all runs together; their ends are the same for each run."""
    lengths = [np.array(list(map(len, run.sources))) for run in runs]
    all_lengths = np.concatenate(lengths)
    results = []
    for start, end in length_ranges(all_lengths, _BUCKETS):
        members = [np.flatnonzero((start <= of_run) & (of_run <= end)) for of_run in lengths]
        scores = [(_bleu(run, indices), len(indices)) for run, indices in zip(runs, members, strict=True)]
        results.append(Bucket(f"{start}–{end}" if start < end else f"{end}", scores))
    return results


def _bleu(run: ReportedRun, indices: np.ndarray) -> float | None:
    """Returns BLEU on tokens of some sentences of a run's evaluation."""
    if run.result is None or not len(indices):
        return None
    hypotheses, references = ([lines[index] for index in indices] for lines in (run.hypotheses, run.references))
    return metrics.bleu(Comparison(hypotheses, references, by_characters=run.by_characters)).value


def _chart(
    title: str,
    xlabel: str,
    runs: Sequence[ReportedRun],
    points: Sequence[Mapping[int, float]],
    ticks: Sequence[str] = (),
) -> Chart:
    """Draws a line for each run, in the colour of its mechanism."""
    figure = Figure(figsize=_INCHES, layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.subplots()
    axes.patch.set_alpha(0)
    plots.draw_lines(
        axes,
        [
            plots.Line(run.folder, styles.attention(run.config), {x: (y, y, y) for x, y in heights.items()})
            for run, heights in zip(runs, points, strict=True)
        ],
    )
    axes.set_xlabel(xlabel)
    axes.set_ylabel(title)
    axes.set_ylim(0, max([1.0, *(1.05 * y for heights in points for y in heights.values())]))
    if ticks:
        axes.set_xticks(range(len(ticks)), ticks)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter("{x:,.0f}")
    with rc_context({"svg.fonttype": "none"}):
        document = plots.rendered(figure, "svg").decode("utf-8")
    svg = document[document.index("<svg") :]
    svg = re.sub(r'<metadata>.*?</metadata>| id="[A-Za-z.]+\d*_\d+"', "", svg, flags=re.DOTALL)  # ids would occur twice
    ends = [
        f"{run.folder} ends at {list(heights.values())[-1]:.4g}"
        for run, heights in zip(runs, points, strict=True)
        if heights
    ]
    return Chart(title, f"{title} against {xlabel}: {', '.join(ends)}", svg)


def length_ranges(lengths: np.ndarray, number: int) -> list[tuple[int, int]]:
    """Returns the least and the greatest length of up to `number` groups with about equally many members."""
    ends = np.unique(np.quantile(lengths, np.arange(1, number + 1) / number, method="lower"))
    return list(zip([lengths.min(), *(ends[:-1] + 1)], ends, strict=True))
