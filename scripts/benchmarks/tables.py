"""Writes and reads what benchmarks have measured, and draws it.

A table may hold several measurements, of other systems or on other machines. Each row then begins with the name of its
measurement and the machine's device. The conditions of all are in the conditions.json of the folder, by name.
"""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from absl import flags
from matplotlib import ticker
from studies.plots import draw_lines, label_ends, picture
from studies.runs import groups

from benchmarks.race import Measured
from benchmarks.systems import SYSTEMS
from memattn import files
from memattn.evaluation import formatting
from memattn.evaluation.plots import Line, Point
from memattn.runs.result import conditions

_NAMES = ("measurement", "device")  # first columns of a table of several measurements
_NUMBER = r"-?[\d.]+(?:e[+-]\d+)?"


def rows_of(length: int, measured: Mapping[str, Measured]) -> list[dict[str, Any]]:
    """Returns the rows of systems that took turns. The best library is the fastest other library."""
    libraries = [library.median for name, library in measured.items() if not SYSTEMS[name].worker.is_ours]
    bahdanau = measured.get("memattn: Bahdanau")
    return [
        {
            "L": length,
            "system": name,
            "seconds": float(f"{result.median:.4g}"),
            "min-max": formatting.extent(result.seconds, ".4g"),
            "fold s (apart)": "" if result.fold_seconds is None else f"{result.fold_seconds:.2g}",
            "speed-up over the best library": round(min(libraries) / result.median, 2) if libraries else "",
            "speed-up over our Bahdanau": round(bahdanau.median / result.median, 2) if bahdanau else "",
            "peak MiB": result.peak_memory,
            "background load": result.background_load,
            "notes": f"{' '.join(f'{key} {value}' for key, value in result.versions.items())}; {result.notes}",
        }
        for name, result in measured.items()
    ]


def write(
    rows: list[dict],
    options: flags.FlagValues,
    *,
    title: str,
    measure: str = "seconds",
    scale: str = "log",
) -> None:
    """Stores the table and its conditions, and draws it; prints the table.

    If there are several lengths, the picture shows the column `measure` against the length; both axes have the `scale`,
    "log" or "linear".
    """
    table, notes = without_notes(rows)
    size = f"{options.units} units, two layers unless notes say otherwise, vocabulary {options.vocabulary:,}"
    size += f", {conditions()['device']}"
    caption = f"{title}: {size}, {options.threads} threads"
    store(options, table, title=caption, repeats=options.repeats, threads=options.threads, systems=notes)
    if len({row["L"] for row in rows}) > 1:
        path = os.path.join(os.path.dirname(options.output), f"{_name(options)}.png")
        labels = {"title": f"{title}\n{size}", "x": "length L, in tokens", "y": measure}
        draw(path, system_lines(rows, measure), scale=scale, **labels)
    print(f"\n{title}\n\n{formatting.markdown(table)}")


def without_notes(rows: list[dict]) -> tuple[list[dict], dict[str, list[str]]]:
    """Returns rows without their notes, and the notes of each system: several if they differ, as batches do by L."""
    by_system = groups(rows, itemgetter("system")).items()
    notes = {system: list(dict.fromkeys(row["notes"] for row in same)) for system, same in by_system}
    return [{key: row[key] for key in row if key != "notes"} for row in rows], notes


def define_output(table: str) -> None:
    """Defines the flags for where `store` writes."""
    flags.DEFINE_string("output", f"runs/results/speed/{table}", "Path of the table, without file extension.")
    meaning = "Name of these rows in a table of several measurements; replaces those of this name alone."
    flags.DEFINE_string("measurement", None, meaning)


def store(options: flags.FlagValues, rows: list[dict], *, title: str, **settings: Any) -> None:
    """Writes rows into the table at `options.output`, and their conditions into conditions.json, by their name.

    The name is `options.measurement`, or else that of the table, which then has these rows alone. If a measurement is
    added to such a table, the earlier rows get the table's name. The conditions are title, settings, command, versions,
    machine and load.
    """
    folder, table = os.path.split(options.output)
    path, conditions_path = f"{options.output}.csv", os.path.join(folder, "conditions.json")
    stored = files.read_json(conditions_path) if os.path.exists(conditions_path) else {}
    stored[_name(options)] = {"title": title, **settings, **conditions(), "load_average": os.getloadavg()[0]}
    if options.measurement:
        earlier = files.read_csv(path) if os.path.exists(path) else []
        if earlier and "measurement" not in earlier[0]:
            earlier = _named(earlier, table, stored)
        others = [row for row in earlier if row["measurement"] != options.measurement]
        rows = [*others, *_named(rows, options.measurement, stored)]
    files.write_csv(path, rows)
    files.write(conditions_path, json.dumps(stored, indent=2) + "\n")


def _named(rows: list[dict], measurement: str, stored: Mapping[str, Any]) -> list[dict]:
    """Returns the rows of a measurement with its name and device first; `stored` are the conditions by name."""
    device = stored.get(measurement, {}).get("device", "")
    return [{"measurement": measurement, "device": device, **row} for row in rows]


def _name(options: flags.FlagValues) -> str:
    return options.measurement or os.path.basename(options.output)


def measured_rows(path: str, measurement: str | None) -> list[dict[str, str]]:
    """Returns the rows of a measurement in a table of several, without the columns that name it; all if it is None."""
    if measurement is None:
        return files.read_csv(path)
    rows = [row for row in files.read_csv(path) if row["measurement"] == measurement]
    columns = [column for column in rows[0] if column not in _NAMES and any(row[column] for row in rows)]
    return [{column: row[column] for column in columns} for row in rows]


def draw(path: str, lines: list[Line], *, title: str, x: str, y: str, scale: str = "log") -> None:
    """Draws a line for each system, time against length, with the name at its end and a shade over the range.

    `scale`, of both axes, is "log" or "linear"; linear axes start at 0.
    """
    with picture(path, title, (8, 4.5)) as axes:
        draw_lines(axes, lines)
        axes.set(xscale=scale, yscale=scale, xlabel=x, ylabel=y)
        ticks = sorted({length for line in lines for length in line.points})
        if scale == "linear":  # texts of near ticks would overlap
            gaps = zip(ticks, [-math.inf, *ticks], strict=False)
            ticks = [tick for tick, last in gaps if tick - last > 0.06 * ticks[-1]]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        if scale == "log":
            axes.minorticks_off()
            axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
        else:
            top = max(greatest for line in lines for _, _, greatest in line.points.values())
            axes.set(xlim=(0, ticks[-1]), ylim=(0, 1.05 * top if top > 0 else None))
        label_ends(axes)


def system_lines(rows: list[dict], measure: str) -> list[Line]:
    """Returns the column `measure` of a table against the length, with its range, for each system."""
    points_by_system = table_points(rows, "system", "L", measure, "min-max")
    return [
        Line(label, (SYSTEMS.get(label) or SYSTEMS[f"memattn: {label}"]).attention, points)
        for label, points in points_by_system.items()
    ]


def table_points(
    rows: list[dict[str, str]], model: str, x: str, y: str, extent: str | None = None
) -> dict[str, dict[int, Point]]:
    """Returns the column `y` against the column `x`, by the column `model`; `extent` is the column of the ranges."""
    by_model: dict[str, dict[int, Point]] = {}
    for row in rows:
        middle = float(row[y])
        least, greatest = ends(row[extent]) if extent else (middle, middle)
        by_model.setdefault(row[model], {})[int(row[x])] = middle, least, greatest
    return by_model


def ends(extent: str) -> tuple[float, float]:
    """Returns the least and the greatest value of a range, as `formatting.extent` writes it."""
    ((least, greatest),) = re.findall(rf"^({_NUMBER})-({_NUMBER})$", extent)
    return float(least), float(greatest)


def pivot(rows: list[dict], index: str, column: Callable[[dict], str], entry: Callable[[dict], str]) -> list[dict]:
    """Returns a row for each value of `index`, with the entry of each of `rows` that has this value in its column."""
    table: dict[Any, dict] = {}
    for row in rows:
        table.setdefault(row[index], {index: row[index]})[column(row)] = entry(row)
    return list(table.values())
