"""Draws times against lengths."""

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memattn.evaluation.plots import COLOURS, DASHES, save


def times(path: str, lines: dict[str, dict[int, float]], *, title: str, x: str, y: str, scale: str = "log") -> None:
    """Draws a line for each system (name -> length -> time), with the name at its end.

    `scale`, of both axes, is "log" or "linear"; linear axes start at 0.
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
    save(figure, path)


def _label_ends(axes: Axes) -> None:
    """Writes each line's label to the right of its end, at least 6% of the axes' height above the label below."""
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = {line: to_axes.transform(line.get_xydata()[-1])[1] for line in axes.lines}
    height = -1.0
    for line in sorted(ends, key=ends.get):
        height = max(ends[line], height + 0.06)
        axes.text(1.02, height, line.get_label(), transform=axes.transAxes, color=line.get_color(), va="center")
