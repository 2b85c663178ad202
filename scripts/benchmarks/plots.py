"""Draws times against lengths."""

from matplotlib import ticker
from matplotlib.figure import Figure
from studies.plots import label_ends

from memattn.evaluation.plots import Line, draw_lines, save


def times(path: str, lines: list[Line], *, title: str, x: str, y: str, scale: str = "log") -> None:
    """Draws a line for each system, time against length, with the name at its end and a shade over the range.

    `scale`, of both axes, is "log" or "linear"; linear axes start at 0.
    """
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    draw_lines(axes, lines)
    axes.set(xscale=scale, yscale=scale, xlabel=x, ylabel=y)
    ticks = sorted({length for line in lines for length in line.points})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    if scale == "log":
        axes.minorticks_off()
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        top = max(greatest for line in lines for _, _, greatest in line.points.values())
        axes.set(xlim=(0, ticks[-1]), ylim=(0, 1.05 * top if top > 0 else None))
    figure.suptitle(title, fontsize=10, parse_math=False)
    label_ends(axes)
    save(figure, path)
