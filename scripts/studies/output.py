"""Writes the tables and pictures of a study."""

import os
from collections.abc import Callable
from typing import NamedTuple

from memattn import files
from memattn.errors import RunError
from memattn.evaluation import formatting, styles
from memattn.evaluation import plots as evaluation_plots
from memattn.evaluation.metrics import METRICS
from memattn.evaluation.plots import Alignment
from memattn.sweeps import tables
from memattn.sweeps.runs import SweepRun
from studies import names, plots

MISSING = "Runs that are missing, because they failed"
OTHER_SETTINGS = "other learning rate and training steps"  # how the scale "cpu" differs from the paper
_LABELS = {"small": " (scaled down)", "cpu": f" ({OTHER_SETTINGS} than the paper's)"}


class Output(NamedTuple):
    """A folder for the results of a target at one scale."""

    folder: str
    scale: str  # of the runs
    missing: list[str] = []  # folders of runs that the results lack, because they failed

    @property
    def label(self) -> str:
        """Ending of titles that states the scale; "" for the paper's."""
        return _LABELS.get(self.scale, "")

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def table(self, rows: list[dict], title: str) -> None:
        """Writes rows as CSV; prints them with the title and the missing runs. Raises RunError if there are none."""
        markdown = f"{title}{self.label}\n\n{formatting.markdown(at_least_one(rows, 'that the table needs'))}"
        if self.missing:
            markdown += f"\n{MISSING}: {', '.join(self.missing)}\n"
        files.write_csv(self.path("table.csv"), rows)
        print(f"\n{markdown}", flush=True)

    def learning_curves(self, name: str, groups: dict[str, list[SweepRun]], title: str, metric: str = "bleu") -> None:
        """Writes a picture and a table of learning curves: label -> runs that differ in seed.

        A run that ended before others of its label keeps its last score. The picture has names of models in words.
        """
        score = f"{METRICS[metric].title} {METRICS[metric].unit}".rstrip()
        curves, rows = [], []
        for label, runs in groups.items():
            model = styles.attention(runs[0].config)
            curve = tables.curve(styles.words(model) if label == names.model(model) else label, runs, metric)
            curves.append(curve)
            rows += [
                {
                    "run": label,
                    "step": step,
                    "seeds": len(runs),
                    f"validation {score}": f"{mean:.2f}",
                    "min-max": formatting.extent([least, greatest], ".2f"),
                }
                for step, (mean, least, greatest) in curve.points.items()
            ]
        files.write_csv(self.path(f"{name}.csv"), rows)
        self.pictures(name, lambda path: plots.learning_curves(path, curves, f"{title}{self.label}", score))

    def alignments(self, name: str, aligned: Alignment, title: str) -> None:
        """Draws attention weights over source and target."""
        figure = evaluation_plots.alignment_figure(aligned, f"{title}{self.label}")
        self.pictures(name, lambda path: evaluation_plots.save(figure, path))

    def pictures(self, name: str, draw: Callable[[str], None]) -> None:
        """Calls `draw(path)` for a PNG, which web pages show, and for an SVG, which papers include."""
        for ending in ("png", "svg"):
            draw(self.path(f"{name}.{ending}"))


def table_of_runs(title: str) -> Callable[..., None]:
    """Returns a recipe for a table with a row for each run of the last kind, and another over seeds if these differ."""

    def write(output: Output, *kinds: list[SweepRun]) -> None:
        output.table(_without_times(list(map(tables.row, kinds[-1]))), title)
        if seeds := tables.over_seeds(kinds[-1]):
            files.write_csv(output.path("seeds.csv"), _without_times(seeds))

    return write


def _without_times(rows: list[dict]) -> list[dict]:
    """Leaves out decode times, which are those of a single decoding."""
    return [{column: value for column, value in row.items() if not column.startswith("decode s")} for row in rows]


def at_least_one(items: list, which: str) -> list:
    """Returns `items`; raises RunError if there are none."""
    if not items:
        raise RunError(f"no run {which} succeeded")
    return items
