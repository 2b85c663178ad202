"""Draws alignments and learning curves."""

import io
import math
import statistics
import textwrap
import warnings
from typing import Any

import numpy as np
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memattn import files

# Okabe and Ito's colours, distinct for colour-blind readers too; the dashes distinguish them in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")


def alignments(
    path: str, source: list[str], target: list[str], weights: np.ndarray, slots: np.ndarray, title: str = ""
) -> None:
    """Draws attention weights like the paper's Figures 6 and 7: source tokens downwards, target tokens to the right.

    Slots are in the order of their mean source positions. Slots and their sum share one scale of colours.

    Args:
      path: path of the picture; its ending chooses the format.
      source, target: S and T tokens.
      weights: weights of the source positions at each target token, [T, S]; negative ones are red.
      slots: each memory slot's share of `weights`, [K, T, S]. Slots with at least 1% of the weight are drawn on the
        left.
      title: heading of the picture.
    """
    drawn = _largest_slots(slots)
    columns = min(len(drawn), 6 if len(drawn) > 16 else 4)
    rows = math.ceil(len(drawn) / columns) if columns else 0
    side = float(np.clip(0.18 * max(len(source), len(target)), 3.5, 5.5))  # inches, as are all sizes
    panel = max(1.0, side / max(rows, 3))
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
        heading = f"{len(drawn)} of {len(slots)} slots", "carry 1% or more:", "$\\beta_k \\alpha_k$"
        left.suptitle((" " if left_width > 4 else "\n").join(heading), fontsize=12)
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
    right.colorbar(image, ax=axes, shrink=0.8).set_label("attention score (colours by its square root)", size=11)
    save(figure, path)


def _image_style(weights: np.ndarray) -> dict[str, Any]:
    """Returns arguments of `imshow` whose colours go by the square roots of weights, so that weak ones are visible."""
    largest, has_negative = max(np.abs(weights).max(), 1e-9), weights.min() < 0
    scale = colors.FuncNorm((_signed_root, _signed_square), vmin=-largest if has_negative else 0.0, vmax=largest)
    return {"cmap": "RdBu" if has_negative else "Blues", "norm": scale, "aspect": "auto", "interpolation": "nearest"}


def _signed_root(values: np.ndarray) -> np.ndarray:
    return np.sign(values) * np.sqrt(np.abs(values))


def _signed_square(roots: np.ndarray) -> np.ndarray:
    return np.sign(roots) * roots**2


def _largest_slots(slots: np.ndarray) -> np.ndarray:
    """Returns the indices of slots [K, T, S] with at least 1% of the weight, by their mean source position."""
    weights = slots.sum(1)  # [K, S]
    totals = weights.sum(1)
    centres = weights @ np.arange(weights.shape[1]) / np.maximum(totals, 1e-9)
    order = np.argsort(centres, kind="stable")
    return order[totals[order] >= 0.01 * max(totals.sum(), 1e-9)]


def learning_curves(path: str, curves: dict[str, dict[int, list[float]]], title: str) -> None:
    """Draws validation BLEU against training steps: for each name a line of means, and a shade over the range.

    Args:
      path: path of the picture; its ending chooses the format.
      curves: for each name, BLEU of its runs by step.
      title: heading of the picture; should state the scale of the runs.
    """
    curves = {textwrap.fill(name, 85): points for name, points in curves.items()}
    longest = max((len(line) for name in curves for line in name.splitlines()), default=0)
    legend_beside = longest <= 20 and len(curves) <= 16  # otherwise below the picture
    columns = 1 if legend_beside else max(1, 85 // (longest + 6))
    lines = math.ceil(sum(len(name.splitlines()) for name in curves) / columns)
    figure = Figure(figsize=(7, 4 if legend_beside else 4 + 0.2 * lines), layout="constrained")
    axes = figure.subplots()
    for i, (name, points) in enumerate(curves.items()):
        steps, scores = list(points), list(points.values())
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        axes.plot(steps, list(map(statistics.mean, scores)), dash, color=colour, label=name, marker="o", markersize=3)
        lowest, highest = list(map(min, scores)), list(map(max, scores))
        axes.fill_between(steps, lowest, highest, color=colour, alpha=0.15, linewidth=0)
    all_scores = [scores for points in curves.values() for scores in points.values()]
    has_ranges = any(len(scores) > 1 for scores in all_scores)
    axes.set_xlabel("training step")
    axes.set_ylabel(f"validation BLEU{', mean and range over seeds' if has_ranges else ''}")
    axes.set_xlim(left=0)
    top = max(map(max, all_scores), default=100)
    axes.set_ylim(0, min(102, 1.4 * top) if top else 102)
    axes.set_title(textwrap.fill(title, 85), fontsize=10, parse_math=False)
    axes.grid(alpha=0.3)
    if curves:
        figure.legend(
            fontsize=8, ncols=columns, loc="outside right center" if legend_beside else "outside lower center"
        )
    save(figure, path)


def _name_axes(axes: Axes, source: list[str], target: list[str]) -> None:
    """Writes the tokens on the axes, each cut to 20 characters; of more than 40 tokens, only every n-th."""
    for tokens, axis, rotation in ((target, axes.xaxis, 90), (source, axes.yaxis, 0)):
        places = range(0, len(tokens), math.ceil(len(tokens) / 40))
        names = [tokens[i] if len(tokens[i]) <= 20 else f"{tokens[i][:19]}…" for i in places]
        size = 11 if len(names) <= 30 and max(map(len, names)) <= 8 else 8
        axis.set_ticks(places, names, rotation=rotation, fontsize=size, parse_math=False)


def save(figure: Figure, path: str) -> None:
    """Writes a picture. A character missing from the font becomes a box, without a warning."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(picture, format=path.rpartition(".")[2], dpi=150)
    files.write(path, picture.getvalue())
