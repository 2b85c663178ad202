"""Draws what only the pictures of studies and benchmarks have."""

import contextlib
import itertools
import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import ScalarFormatter
from mpl_toolkits.mplot3d import Axes3D

from memattn.evaluation import plots
from memattn.evaluation.plots import Line, save
from memattn.evaluation.styles import STYLES, words
from studies.runs import groups
from studies.styles import line_styles

_TASK_STYLES = [(colour, dash) for dash in ("-", "--") for colour in ("#222222", "#BB5566", "#DDAA33")]


@contextlib.contextmanager
def picture(path: str, title: str, size: tuple[float, float], rows: int = 1, columns: int = 1, **options) -> Iterator:
    """Yields the axes of a new picture; in the end, writes its title above them and the picture to its path.

    `options` are those of Figure.subplots.
    """
    figure = Figure(figsize=size, layout="constrained")
    yield figure.subplots(rows, columns, **options)
    if title:
        figure.suptitle(title, fontsize=10, parse_math=False)
    save(figure, path)


def draw_lines(axes: Axes, lines: list[Line]) -> None:
    """Draws lines in the colours and dashes of their mechanisms, with shades over the ranges."""
    plots.draw_lines(axes, lines, line_styles)


def learning_curves(path: str, curves: list[Line], title: str, score: str = "BLEU") -> None:
    """Draws validation scores by training step, in the colours and dashes of the mechanisms."""
    plots.learning_curves(path, curves, title, line_styles, score)


def label_ends(axes: Axes) -> None:
    """Writes the name of each line to the right of the axes, and joins it to the end of the line.

    Call it last, as it needs the final limits of the axes. Names are at least 7% of the axes' height apart.
    """
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = [(*to_axes.transform(np.array(line.get_xydata())[-1]), line) for line in axes.lines]
    ends.sort(key=lambda end: end[1])
    heights: list[float] = []
    for _, end, _ in ends:
        heights.append(max([end, *(lower + 0.07 for lower in heights[-1:])]))
    for i in reversed(range(len(heights))):  # those that were pushed above the axes
        heights[i] = min([heights[i], *(upper - 0.07 for upper in heights[i + 1 : i + 2] or [1.07])])
    for (x, end, line), height in zip(ends, heights, strict=True):
        leader = Line2D([x + 0.01, 1.07], [end, height], transform=axes.transAxes, clip_on=False, linewidth=1)
        leader.set(color=line.get_color(), linestyle=line.get_linestyle())
        axes.add_line(leader)
        axes.text(1.08, height, str(line.get_label()), transform=axes.transAxes, va="center", parse_math=False)


def log_axis(axes: Axes, ticks: list[int], base: float = 10) -> None:
    """Makes the x axis logarithmic, with these ticks alone."""
    axes.set_xscale("log", base=base)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()


def surface(path: str, encodings: np.ndarray) -> None:
    """Draws position encodings [S, K] over slots and positions, as the paper's Figure 2."""
    positions, slots = encodings.shape
    figure = Figure(figsize=(6, 4.5))
    axes = cast(Axes3D, figure.add_axes((0.0, 0.05, 0.92, 0.9), projection="3d"))
    x, y = np.meshgrid(np.arange(1, slots + 1), np.arange(1, positions + 1))
    axes.plot_surface(x, y, encodings, cmap="viridis", rcount=20, ccount=16, edgecolor="white", linewidth=0.2)
    axes.set_xlabel("slot k")
    axes.set_ylabel("source position s")
    axes.set_zlabel("$l_{ks}$")
    axes.set_title(f"position encodings (Eq. 10), K = {slots}, S = {positions}", fontsize=10)
    axes.set_box_aspect(None, zoom=1.05)
    save(figure, path)


def residuals(path: str, variances: dict[str, np.ndarray], needed: dict[str, int | None], title: str) -> None:
    """Draws the residual variances of each task against the number of directions.

    A ring marks the fewest slots that the task needs, where known.
    """
    with picture(path, title, (7, 4.5)) as axes:
        for (colour, dash), (task, fractions) in zip(itertools.cycle(_TASK_STYLES), variances.items()):
            axes.plot(range(len(fractions)), fractions, dash, color=colour, label=task)
            if fewest := needed[task]:
                axes.plot(fewest, fractions[fewest], "o", color=colour, fillstyle="none", markersize=9)
        log_axis(axes, [1, 2, 4, 8, 16, 32])
        top = max(fractions[1] for fractions in variances.values())
        axes.set(xlim=(1, 40), ylim=(0, 1.05 * top if top > 0 else None))
        axes.set_xlabel("number of directions (rings: the slots that the task needs)")
        axes.set_ylabel("residual variance of the contexts")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=9)


def memory(path: str, tokens: list[str], maps: np.ndarray, title: str) -> None:
    """Draws maps of an active memory [steps, n, maps], each over positions and steps; `tokens` [n] are its source."""
    limit, columns = np.abs(maps).max(), math.ceil(maps.shape[2] / 2)
    with picture(path, title, (9, 6), 2, columns, sharex=True, sharey=True) as all_axes:
        for i, axes in enumerate(all_axes.flat):
            image = axes.imshow(maps[:, :, i], cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto", origin="lower")
            axes.set_xticks(range(len(tokens)), tokens, fontsize=7, parse_math=False)
            axes.set_xlabel("position, and its source token" if i >= columns else "")
            axes.set_ylabel("step" if i % columns == 0 else "")
        all_axes[0, 0].figure.colorbar(image, ax=list(all_axes.flat), shrink=0.6, label="value of the map")


def heat_map(
    axes: Axes,
    values: np.ndarray,
    texts: list[list[str]],
    rows: list[str],
    columns: list[str],
    *,
    worst: float,
    best: float,
) -> None:
    """Draws a cell for each value, darker for better ones, with its text; a value of NaN has a white cell."""
    colours = "cividis" if worst > best else "cividis_r"
    image = axes.imshow(values, cmap=colours, vmin=min(worst, best), vmax=max(worst, best), aspect="auto")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns, fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for (row, column), value in np.ndenumerate(values):
        luminance = np.dot(image.to_rgba(value)[:3], [0.2, 0.7, 0.1])  # a cell without a value is transparent
        dark = not np.isnan(value) and luminance < 0.5
        axes.text(column, row, texts[row][column], ha="center", va="center", color="white" if dark else "black")


def steps_by_load(path: str, points: dict[str, list[tuple[float, int | None]]], title: str) -> None:
    """Draws training steps of windowed memory against symbols per slot: a point for each run, a marker for each label.

    None is a run that never got there.
    """
    with picture(path, textwrap.fill(title, 80), (7, 4.5)) as axes:
        styles = line_styles([{"name": "windowed_memory"}] * len(points))
        for (colour, _), marker, (label, pairs) in zip(styles, itertools.cycle("osD^v"), points.items(), strict=False):
            reached = [(load, steps) for load, steps in pairs if steps]
            axes.plot(*zip(*reached, strict=True) if reached else ([], []), marker, color=colour, label=label)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.set(xlabel="symbols per slot, L / K", ylabel="training steps to 95 validation BLEU", ylim=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=9)


def by_length(path: str, bleu: list[Line], speed_ups: list[Line], title: str) -> None:
    """Draws BLEU, and the speed-up over Bahdanau attention, of each model against the words of a source."""
    with picture(path, title, (9, 4), 1, 2) as (left, right):
        draw_lines(left, bleu)
        draw_lines(right, speed_ups)
        for axes, label in ((left, "BLEU"), (right, "speed-up over Bahdanau attention")):
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.set(xlabel="words of a source (median)", ylabel=label)
        left.set_ylim(bottom=0)
        handles, labels = left.get_legend_handles_labels()
        left.figure.legend(handles, labels, fontsize=8, handlelength=3, loc="outside lower center", ncols=4)


def loss_and_speed(path: str, points: list[tuple[Mapping[str, Any], int, float, float]], title: str) -> None:
    """Draws BLEU lost against the speed-up over Bahdanau attention, which is the origin, with K beside each point.

    A point is the options of a memory's attention, K, BLEU lost and speed-up; a line joins those of a mechanism.
    """
    with picture(path, title, (6.5, 4.5)) as axes:
        axes.plot(1, 0, "o", color=STYLES["bahdanau"].colour, label="Bahdanau")
        by_mechanism = groups(points, lambda point: words({**point[0], "num_slots": None}))
        styles = line_styles([{**same[0][0], "num_slots": 32} for same in by_mechanism.values()])
        for (name, same), (colour, dash) in zip(by_mechanism.items(), styles, strict=True):
            _, slots, losses, speed_ups = zip(*sorted(same, key=itemgetter(1)), strict=True)
            axes.plot(speed_ups, losses, linestyle=dash, marker="o", color=colour, label=name)
            for x, y, number in zip(speed_ups, losses, slots, strict=True):
                axes.annotate(str(number), (x, y), textcoords="offset points", xytext=(5, 4), fontsize=8)
        axes.set(xlabel="speed-up over Bahdanau attention", ylabel="BLEU lost (numbers: slots)")
        axes.invert_yaxis()
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)


def attention_over_sound(
    path: str, features: np.ndarray, weights: Mapping[str, np.ndarray], text: str, title: str
) -> None:
    """Draws attention weights of several models over one utterance, above its log-mel features.

    Args:
      path: path of the picture; its ending chooses the format.
      features: [S, F], 100 a second.
      weights: [T, S] by the name of the model, for the characters of `text` and the end of sentence. Time runs to the
        right, characters downwards.
      text: T - 1 characters.
      title: heading of the picture.
    """
    seconds = len(features) / 100
    words = list(re.finditer(r"\S+", text))
    rows, heights = len(weights) + 1, [2.2] * len(weights) + [1.5]
    with picture(path, title, (8, sum(heights) + 0.3), rows, sharex=True, height_ratios=heights) as (*upper, lowest):
        for axes, (name, weights_of_model) in zip(upper, weights.items(), strict=True):
            extent = (0, seconds, len(weights_of_model), 0)
            norm = PowerNorm(0.5, vmin=0, vmax=max(weights_of_model.max(), 1e-9))
            axes.imshow(weights_of_model, "Blues", norm=norm, aspect="auto", interpolation="nearest", extent=extent)
            axes.set_yticks([sum(word.span()) / 2 for word in words], [word[0] for word in words], fontsize=8)
            axes.set_title(name, fontsize=10)
        lowest.imshow(features.T, "magma", aspect="auto", origin="lower", extent=(0, seconds, 0, features.shape[1]))
        lowest.set(xlabel="seconds", ylabel="mel band")
