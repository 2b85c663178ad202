"""Alignments, learning curves and times as pictures."""

import io
import math
import statistics
import textwrap
import warnings

import numpy as np
from matplotlib import colors, ticker
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
    _save(figure, path)


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
    _save(figure, path)


def surface(path: str, encodings: np.ndarray) -> None:
    """Draws position encodings [S, K] over slots and positions, as the paper's Figure 2."""
    positions, slots = encodings.shape
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.add_subplot(projection="3d")
    x, y = np.meshgrid(np.arange(1, slots + 1), np.arange(1, positions + 1))
    drawn = axes.plot_surface(x, y, encodings, cmap="viridis", rcount=20, ccount=16, edgecolor="white", linewidth=0.2)
    axes.set_xlabel("slot k")
    axes.set_ylabel("source position s")
    axes.set_zlabel("$L_{ks}$")
    axes.set_title(f"position encodings (Eq. 10), K = {slots}, S = {positions}", fontsize=10)
    axes.set_box_aspect(None, zoom=0.95)
    figure.colorbar(drawn, ax=axes, shrink=0.6)
    _save(figure, path)


def times(path: str, lines: dict[str, dict[int, float]], *, title: str, x: str, y: str, scale: str = "log") -> None:
    """Draws times against lengths, a line for each system: name -> length -> time.

    Both axes have the `scale`, "log" or "linear"; linear ones start at 0. Names stand at the ends of the lines.
    """
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for i, (name, points) in enumerate(lines.items()):
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        axes.plot(list(points), list(points.values()), dash, color=colour, label=name, marker="o", clip_on=False)
    axes.set(xscale=scale, yscale=scale, xlabel=x, ylabel=y)
    ticks = sorted({length for points in lines.values() for length in points})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    if scale == "log":
        axes.minorticks_off()
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set(xlim=(0, ticks[-1]), ylim=(0, 1.05 * max(max(points.values()) for points in lines.values())))
    figure.suptitle(title, fontsize=10, parse_math=False)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    _label_ends(axes)
    _save(figure, path)


def residuals(path: str, left: dict[str, np.ndarray], needed: dict[str, int | None], title: str) -> None:
    """Draws what is left of the contexts of each task by number of directions, with a ring at the slots it needs."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for i, (task, shares) in enumerate(left.items()):
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        axes.plot(range(len(shares)), shares, dash, color=colour, label=task)
        if needed[task]:
            axes.plot(needed[task], shares[needed[task]], "o", color=colour, fillstyle="none", markersize=9)
    ticks = [1, 2, 4, 8, 16, 32]
    axes.set_xscale("log")
    axes.set_xticks(ticks, ticks)
    axes.minorticks_off()
    axes.set(xlim=(1, 40), ylim=(0, None), xlabel="directions; rings: slots that the task needs")
    axes.set_ylabel("share of the contexts that is left")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    figure.suptitle(title, fontsize=10, parse_math=False)
    _save(figure, path)


def memory(path: str, tokens: list[str], maps: np.ndarray, title: str) -> None:
    """Draws maps of an active memory [steps, n, maps], each over positions and steps; `tokens` [n] fill it first."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    limit = np.abs(maps).max()
    for i, axes in enumerate(figure.subplots(2, math.ceil(maps.shape[2] / 2), sharex=True, sharey=True).flat):
        drawn = axes.imshow(maps[:, :, i], cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto", origin="lower")
        axes.set_xticks(range(len(tokens)), tokens, fontsize=7, parse_math=False)
        axes.set_xlabel("position, and its source token" if i >= maps.shape[2] / 2 else "")
        axes.set_ylabel("step" if i % math.ceil(maps.shape[2] / 2) == 0 else "")
    figure.colorbar(drawn, ax=figure.axes, shrink=0.6)
    figure.suptitle(title, fontsize=10, parse_math=False)
    _save(figure, path)


def _label_ends(axes: Axes) -> None:
    """Writes each line's label to the right of its end, at least 6% of the axes' height above the next lower one."""
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = {line: to_axes.transform(line.get_xydata()[-1])[1] for line in axes.lines}
    height = -1.0
    for line in sorted(ends, key=ends.get):
        height = max(ends[line], height + 0.06)
        axes.text(1.02, height, line.get_label(), transform=axes.transAxes, color=line.get_color(), va="center")


def _name_axes(axes: Axes, source: list[str], target: list[str]) -> None:
    """Writes the tokens on the axes, cut to 20 characters; every n-th if there are more than 40."""
    for tokens, axis, rotation in ((target, axes.xaxis, 90), (source, axes.yaxis, 0)):
        places = range(0, len(tokens), math.ceil(len(tokens) / 40))
        names = [tokens[i] if len(tokens[i]) <= 20 else f"{tokens[i][:19]}…" for i in places]
        size = 11 if len(names) <= 30 and max(map(len, names)) <= 8 else 8
        axis.set_ticks(places, names, rotation=rotation, fontsize=size, parse_math=False)


def _save(figure: Figure, path: str) -> None:
    """Writes a picture; a character missing from the font becomes a box, without a warning."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(picture, format=path.rpartition(".")[2], dpi=150)
    files.write(path, picture.getvalue())
