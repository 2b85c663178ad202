"""Draws the charts of a report as SVG: learning curves, and BLEU by the length of the source."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from memattn.evaluation import metrics, plots, styles
from memattn.evaluation.metrics import METRICS, Comparison
from memattn.reports.runs import ReportedRun

_BUCKETS = 5  # number of buckets of source lengths
_INCHES = (4.6, 3.1)  # narrow, so that text stays readable on a phone


class Chart(NamedTuple):
    """A heading, a picture in SVG, and what it shows in words."""

    title: str
    words: str
    svg: str


class Bucket(NamedTuple):
    """Sources of some lengths.

    Attributes:
      lengths: the least and the greatest number of tokens, as text.
      scores: for each run, BLEU on tokens and the number of sources of these lengths in its test set. BLEU is None if
        the run was not evaluated or has no such sources.
    """

    lengths: str
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


def buckets(runs: Sequence[ReportedRun]) -> list[Bucket]:
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
