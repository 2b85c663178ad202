"""Draws pictures that only studies have."""

import math

import numpy as np
from matplotlib.figure import Figure

from memattn.evaluation.plots import COLOURS, DASHES, save


def surface(path: str, encodings: np.ndarray) -> None:
    """Draws position encodings [S, K] over slots and positions, as the paper's Figure 2."""
    positions, slots = encodings.shape
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.add_subplot(projection="3d")
    x, y = np.meshgrid(np.arange(1, slots + 1), np.arange(1, positions + 1))
    image = axes.plot_surface(x, y, encodings, cmap="viridis", rcount=20, ccount=16, edgecolor="white", linewidth=0.2)
    axes.set_xlabel("slot k")
    axes.set_ylabel("source position s")
    axes.set_zlabel("$L_{ks}$")
    axes.set_title(f"position encodings (Eq. 10), K = {slots}, S = {positions}", fontsize=10)
    axes.set_box_aspect(None, zoom=0.95)
    figure.colorbar(image, ax=axes, shrink=0.6)
    save(figure, path)


def residuals(path: str, residual_shares: dict[str, np.ndarray], needed: dict[str, int | None], title: str) -> None:
    """Draws `directions.residuals` of each task against the number of directions.

    A ring marks the fewest slots that the task needs, where known.
    """
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for i, (task, shares) in enumerate(residual_shares.items()):
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
    save(figure, path)


def memory(path: str, tokens: list[str], maps: np.ndarray, title: str) -> None:
    """Draws maps of an active memory [steps, n, maps], each over positions and steps; `tokens` [n] are its source."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    limit = np.abs(maps).max()
    for i, axes in enumerate(figure.subplots(2, math.ceil(maps.shape[2] / 2), sharex=True, sharey=True).flat):
        image = axes.imshow(maps[:, :, i], cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto", origin="lower")
        axes.set_xticks(range(len(tokens)), tokens, fontsize=7, parse_math=False)
        axes.set_xlabel("position, and its source token" if i >= maps.shape[2] / 2 else "")
        axes.set_ylabel("step" if i % math.ceil(maps.shape[2] / 2) == 0 else "")
    figure.colorbar(image, ax=figure.axes, shrink=0.6)
    figure.suptitle(title, fontsize=10, parse_math=False)
    save(figure, path)


def steps_by_load(path: str, points: dict[str, list[tuple[float, int | None]]], title: str) -> None:
    """Draws training steps against symbols per slot, a line for each label; None is a run that never got there."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for i, (label, pairs) in enumerate(points.items()):
        reached = sorted((load, steps) for load, steps in pairs if steps)
        loads, steps = zip(*reached, strict=True) if reached else ((), ())
        axes.plot(loads, steps, "o" + DASHES[i % len(DASHES)], color=COLOURS[i % len(COLOURS)], label=label)
    axes.set(
        xscale="log", yscale="log", xlabel="symbols per slot, L / K", ylabel="training steps to 95 validation BLEU"
    )
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=9)
    figure.suptitle(title, fontsize=10, parse_math=False)
    save(figure, path)
