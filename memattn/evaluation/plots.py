"""Alignments and learning curves as pictures."""

import io
import math
import statistics
import textwrap
import warnings

import numpy as np
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memattn import files

# Okabe and Ito's colours, distinct for colour-blind readers too; the dashes distinguish them in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")


def alignments(
    path: str, source: list[str], target: list[str], combined: np.ndarray, slots: np.ndarray, title: str = ""
) -> None:
    """Draws attention scores like the paper's Figures 6 and 7: source tokens downwards, target tokens to the right.

    Args:
      path: of the picture; its ending chooses the format.
      source, target: S and T tokens.
      combined: [T, S], the weights of the source positions in each step; negative ones are red.
      slots: [K, T, S], what each memory slot contributes to `combined`; slots with at least 1% of the weight are
        drawn beside it.
      title: above everything.

    Slots stand in the order of the positions they contribute. They share one scale of colours with their sum, by
    square roots so that weak scores are visible.
    """
    largest, negative = max(np.abs(combined).max(), 1e-9), combined.min() < 0
    scale = colors.FuncNorm((_root, _square), vmin=-largest * negative, vmax=largest)
    image_of = {"cmap": "RdBu" if negative else "Blues", "norm": scale, "aspect": "auto", "interpolation": "nearest"}
    drawn = _in_order(slots)
    columns = min(len(drawn), 6 if len(drawn) > 16 else 4)
    rows = math.ceil(len(drawn) / columns) if columns else 0
    side = float(np.clip(0.18 * max(len(source), len(target)), 3.5, 5.5))
    panel = max(1.0, side / max(rows, 3))
    beside = float(np.clip(columns * panel, 1.6, 5.2)) if columns else 1e-3
    width, height = side + 1.6 + beside, max(side, rows * panel) + 1.0
    lines = textwrap.wrap(title, int(8 * width))  # of 13 points, up to 8 characters an inch
    figure = Figure(figsize=(width, height + 0.3 * len(lines)), layout="constrained")
    if lines:
        figure.suptitle("\n".join(lines), fontsize=13, parse_math=False)
    left, right = figure.subfigures(1, 2, width_ratios=[beside, side + 1.6])
    if len(drawn):
        heading = f"{len(drawn)} of {len(slots)} slots", "carry 1% or more:", "$\\beta_k \\alpha_k$"
        left.suptitle((" " if beside > 4 else "\n").join(heading), fontsize=12)
        left.supxlabel("target", fontsize=12)
        left.supylabel("source", fontsize=12)
    else:
        left.set_visible(False)
    for i, k in enumerate(drawn):
        axes = left.add_subplot(rows, columns, i + 1)
        axes.imshow(slots[k].T, **image_of)
        axes.set_title(f"slot {k + 1}", fontsize=11, pad=2)
        axes.set(xticks=[], yticks=[])
    axes = right.add_subplot()
    image = axes.imshow(combined.T, **image_of)
    _name_axes(axes, source, target)
    axes.set_xlabel("target token", fontsize=12)
    axes.set_ylabel("source token", fontsize=12)
    axes.set_title("all slots: $\\beta \\cdot \\alpha$" if len(slots) else "attention", fontsize=12)
    right.colorbar(image, ax=axes, shrink=0.8).set_label("attention score (colours by its square root)", size=11)
    save(figure, path)


def _root(scores: np.ndarray) -> np.ndarray:
    return np.sign(scores) * np.sqrt(np.abs(scores))


def _square(roots: np.ndarray) -> np.ndarray:
    return np.sign(roots) * roots**2


def _in_order(slots: np.ndarray) -> np.ndarray:
    """The slots [K, T, S] with at least 1% of the weight, by the mean source position that they contribute."""
    weights = slots.sum(1)  # [K, S]
    totals = weights.sum(1)
    centres = weights @ np.arange(weights.shape[1]) / np.maximum(totals, 1e-9)
    order = np.argsort(centres, kind="stable")
    return order[totals[order] >= 0.01 * max(totals.sum(), 1e-9)]


def learning_curves(path: str, curves: dict[str, dict[int, list[float]]], title: str) -> None:
    """Draws validation BLEU against training steps: a line of means, shaded from the least to the greatest.

    Args:
      path: of the picture; its ending chooses the format.
      curves: name -> step -> BLEU of each run of that name.
      title: above the picture; should state the scale of the runs.
    """
    curves = {textwrap.fill(name, 85): points for name, points in curves.items()}
    longest = max((len(line) for name in curves for line in name.splitlines()), default=0)
    beside = longest <= 20 and len(curves) <= 16
    columns = 1 if beside else max(1, 85 // (longest + 6))
    lines = math.ceil(sum(len(name.splitlines()) for name in curves) / columns)
    figure = Figure(figsize=(7, 4 if beside else 4 + 0.2 * lines), layout="constrained")
    axes = figure.subplots()
    for i, (name, points) in enumerate(curves.items()):
        steps, means = list(points), [statistics.mean(bleu) for bleu in points.values()]
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        axes.plot(steps, means, dash, color=colour, label=name, marker="o", markersize=3)
        least, greatest = ([of(bleu) for bleu in points.values()] for of in (min, max))
        axes.fill_between(steps, least, greatest, color=colour, alpha=0.15, linewidth=0)
    several = any(len(bleu) > 1 for points in curves.values() for bleu in points.values())
    axes.set_xlabel("training step")
    axes.set_ylabel(f"validation BLEU{', mean and range over seeds' if several else ''}")
    axes.set_xlim(left=0)
    highest = max((bleu for points in curves.values() for own in points.values() for bleu in own), default=100)
    axes.set_ylim(0, min(102, 1.4 * highest) if highest else 102)
    axes.set_title(textwrap.fill(title, 85), fontsize=10, parse_math=False)
    axes.grid(alpha=0.3)
    if curves:
        figure.legend(fontsize=8, ncols=columns, loc="outside right center" if beside else "outside lower center")
    save(figure, path)


def _name_axes(axes: Axes, source: list[str], target: list[str]) -> None:
    """Writes the tokens on the axes, cut to 20 characters; every n-th if there are more than 40."""
    for tokens, axis, rotation in ((target, axes.xaxis, 90), (source, axes.yaxis, 0)):
        places = range(0, len(tokens), math.ceil(len(tokens) / 40))
        names = [tokens[i] if len(tokens[i]) <= 20 else f"{tokens[i][:19]}…" for i in places]
        size = 11 if len(names) <= 30 and max(map(len, names)) <= 8 else 8
        axis.set_ticks(places, names, rotation=rotation, fontsize=size, parse_math=False)


def save(figure: Figure, path: str) -> None:
    """Writes a picture; a character missing from the font becomes a box, without a warning."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(picture, format=path.rpartition(".")[2], dpi=150)
    files.write(path, picture.getvalue())
