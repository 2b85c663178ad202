"""Draws alignments, learning curves, and lines of models in the colours of their mechanisms."""

import io
import math
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import colors, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memattn import files
from memattn.data.sentences import Sources
from memattn.data.vocabulary import Vocabulary
from memattn.evaluation.styles import line_styles

if TYPE_CHECKING:
    from memattn.models.interface import Model

Styles = Callable[[list[Mapping[str, Any]]], Sequence[tuple[str, Any]]]  # see `styles.line_styles`
Point = tuple[float, float, float]  # the middle, the least and the greatest of several values


class Alignment(NamedTuple):
    """Attention weights between a source and a hypothesis."""

    source: list[str]  # labels of the source positions: tokens, or the numbers of vectors from 0
    target: list[str]  # tokens
    weights: np.ndarray  # [T, S], weights of the source positions at each target token; they may be negative
    slots: np.ndarray  # [K, T, S], each memory slot's part of the weights; K = 0 without slots


class Line(NamedTuple):
    """A line of a picture."""

    name: str  # name of the model in words
    attention: Mapping[str, Any]  # options of the model's attention, which choose the colour and the dash
    points: Mapping[int, Point]  # by x


def align(model: "Model", vocabulary: Vocabulary, sources: Sources, index: int, hypothesis: list[str]) -> Alignment:
    """Returns a model's alignment of a hypothesis with the source that has this index."""
    labels, target = sources.labels(index, vocabulary), vocabulary.encode(hypothesis)
    source = sources.padded(np.array([index]), 1, len(labels))
    weights, slots = (
        weigh(source, np.array([target], np.int32))[0].numpy().astype(np.float32)
        for weigh in (model.alignments, model.slot_shares)
    )
    return Alignment(labels, [vocabulary.tokens[i] for i in target], weights, slots)


def alignment_figure(alignment: Alignment, title: str = "") -> Figure:
    """Draws attention weights like the paper's Figures 6 and 7: source tokens downwards, target tokens to the right.

    Negative weights are red. Slots with at least 1% of the weight are drawn on the left, in the order of their mean
    source positions. Slots and their sum have one scale of colours.
    """
    source, target, weights, slots = alignment
    drawn = largest_slots(slots)
    columns = min(math.ceil(math.sqrt(len(drawn))), 6)
    rows = math.ceil(len(drawn) / columns) if columns else 0
    side = float(np.clip(0.18 * max(len(source), len(target)), 3.5, 5.5))  # inches, as are all sizes
    panel = max(1.0, side / max(rows, 2))
    left_width = float(np.clip(columns * panel, 1.6, 5.2)) if columns else 1e-3
    right_width = side + 1.6
    width, height = left_width + right_width, max(side, rows * panel) + 1.0
    title_lines = textwrap.wrap(title, int(8 * width))  # up to 8 characters an inch, at 13 points
    figure = Figure(figsize=(width, height + 0.3 * len(title_lines)), layout="constrained")
    if title_lines:
        figure.suptitle("\n".join(title_lines), fontsize=13, parse_math=False)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[left_width, right_width])[0]
    style = _image_style(weights)
    if len(drawn):
        heading = f"{len(drawn)} of {len(slots)} slots have 1% of the weight or more: $\\beta_k\\alpha_k$"
        left.suptitle(textwrap.fill(heading, int(12 * left_width)), fontsize=11)
        left.supxlabel("target", fontsize=12)
        left.supylabel("source", fontsize=12)
    else:
        left.set_visible(False)
    for i, k in enumerate(drawn):
        axes = left.add_subplot(rows, columns, i + 1)
        axes.imshow(slots[k].T, **style)
        axes.set_title(f"slot {k + 1}", fontsize=11, pad=2)
        axes.set(xticks=[], yticks=[])
    axes = right.add_subplot()
    image = axes.imshow(weights.T, **style)
    _name_axes(axes, source, target)
    axes.set_xlabel("target token", fontsize=12)
    axes.set_ylabel("source token", fontsize=12)
    axes.set_title("all slots: $\\beta \\cdot \\alpha$" if len(slots) else "attention", fontsize=12)
    right.colorbar(image, ax=axes, shrink=0.8).set_label("attention weight (square-root scale)", size=11)
    return figure


def _image_style(weights: np.ndarray) -> dict[str, Any]:
    """Returns arguments of `imshow` whose colours go by the square roots of weights, so that weak ones are visible."""
    largest, has_negative = max(np.abs(weights).max(), 1e-9), weights.min() < 0
    functions = (lambda weight: np.sign(weight) * np.sqrt(np.abs(weight)), lambda root: np.sign(root) * root**2)
    scale = colors.FuncNorm(functions, vmin=-largest if has_negative else 0.0, vmax=largest)
    return {"cmap": "RdBu" if has_negative else "Blues", "norm": scale, "aspect": "auto", "interpolation": "nearest"}


def largest_slots(slots: np.ndarray) -> np.ndarray:
    """Returns the indices of slots [K, T, S] with at least 1% of the weight, by their mean source position."""
    weights = slots.sum(1)  # [K, S]
    totals = weights.sum(1)
    centres = weights @ np.arange(weights.shape[1]) / np.maximum(totals, 1e-9)
    order = np.argsort(centres, kind="stable")
    return order[totals[order] >= 0.01 * max(totals.sum(), 1e-9)]


def learning_curves(
    path: str, curves: list[Line], title: str, styles: Styles = line_styles, score: str = "BLEU"
) -> None:
    """Draws validation scores against training steps: for each model a line of means, and a shade over the range.

    The ending of the path chooses the format of the picture. The title should state the scale of the runs; `score` says
    what is drawn.
    """
    curves = [curve._replace(name=textwrap.fill(curve.name, 85)) for curve in curves]
    longest = max((len(line) for curve in curves for line in curve.name.splitlines()), default=0)
    legend_beside = longest <= 36 and len(curves) <= 16  # otherwise below the picture
    columns = 1 if legend_beside else max(1, 85 // (longest + 6))
    lines = math.ceil(sum(len(curve.name.splitlines()) for curve in curves) / columns)
    figure = Figure(figsize=(8, 4 if legend_beside else 4 + 0.2 * lines), layout="constrained")
    axes = figure.subplots()
    draw_lines(axes, curves, styles)
    points = [point for curve in curves for point in curve.points.values()]
    has_ranges = any(least < greatest for _, least, greatest in points)
    axes.set_xlabel("training step")
    axes.set_ylabel(f"validation {score}{', mean and range over seeds' if has_ranges else ''}")
    axes.set_xlim(left=0)
    top = max((greatest for _, _, greatest in points), default=100)
    axes.set_ylim(0, min(1.1 * top, max(102, 1.02 * top)) if top else 102)  # an error rate may be above 100
    axes.set_title(textwrap.fill(title, 85), fontsize=10, parse_math=False)
    if curves:
        legend = figure.legend(
            fontsize=8,
            ncols=columns,
            handlelength=3,
            loc="outside right center" if legend_beside else "outside lower center",
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
    save(figure, path)


def draw_lines(axes: Axes, lines: list[Line], styles: Styles = line_styles) -> None:
    """Draws lines in the colours and dashes that `styles` chooses for their models, with shades over the ranges."""
    for line, (colour, dash) in zip(lines, styles([line.attention for line in lines]), strict=True):
        xs, points = list(line.points), np.array(list(line.points.values())).reshape(-1, 3)
        axes.plot(
            xs, points[:, 0], linestyle=dash, color=colour, label=line.name, marker="o", markersize=3, clip_on=False
        )
        axes.fill_between(xs, points[:, 1], points[:, 2], color=colour, alpha=0.15, linewidth=0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _name_axes(axes: Axes, source: list[str], target: list[str]) -> None:
    """Writes the tokens on the axes, each cut to 20 characters; of more than 40 tokens, only every n-th."""
    for tokens, axis, rotation in ((target, axes.xaxis, 90), (source, axes.yaxis, 0)):
        indices = range(0, len(tokens), math.ceil(len(tokens) / 40))
        names = [tokens[i] if len(tokens[i]) <= 20 else f"{tokens[i][:19]}…" for i in indices]
        size = 11 if len(names) <= 30 and max(map(len, names)) <= 8 else 8
        axis.set_ticks(indices, names, rotation=rotation, fontsize=size, parse_math=False)


def save(figure: Figure, path: str) -> None:
    """Writes a picture; the ending of its path chooses the format."""
    files.write(path, rendered(figure, path.rpartition(".")[2]))


def rendered(figure: Figure, form: str) -> bytes:
    """Returns a picture as a file of a format such as "png". A character missing from the font becomes a box."""
    picture, metadata = io.BytesIO(), {"Date": None} if form == "svg" else {}
    with warnings.catch_warnings(), rc_context({"svg.hashsalt": "memattn"}):  # the same bytes each time
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(picture, format=form, dpi=125, metadata=metadata)
    return picture.getvalue()
