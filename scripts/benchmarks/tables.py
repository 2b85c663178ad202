"""Writes what a benchmark has measured, as a table and a picture."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from absl import flags

from benchmarks import plots
from benchmarks.race import Measured
from benchmarks.systems import NONE, SYSTEMS, TRANSFORMERS
from memattn import files, reading
from memattn.evaluation import formatting
from memattn.evaluation.plots import Line

_NUMBER = r"-?[\d.]+(?:e[+-]\d+)?"


def row(name: str, length: int, result: Measured, results: Mapping[str, Measured]) -> dict[str, Any]:
    """Returns a system's row of the table.

    The best library is the fastest other library with attention.
    """
    libraries = [
        library.median
        for key, library in results.items()
        if SYSTEMS[key].worker != "ours" and SYSTEMS[key].attention != NONE
    ]
    bahdanau = results.get("memattn: Bahdanau")
    return {
        "L": length,
        "system": name,
        "seconds": round(result.median, 4),
        "min-max": formatting.extent(result.seconds, ".4g"),
        "fold s (apart)": "" if result.fold_seconds is None else f"{result.fold_seconds:.2g}",
        "speed-up over the best library": round(min(libraries) / result.median, 2) if libraries else "",
        "speed-up over our Bahdanau": round(bahdanau.median / result.median, 2) if bahdanau else "",
        "peak MiB": result.peak_memory,
        "background load": result.background_load,
        "batches at once": result.batches_at_once,
        "notes": f"{' '.join(f'{key} {value}' for key, value in result.versions.items())}; {result.notes}",
    }


def write(
    rows: list[dict],
    options: flags.FlagValues,
    *,
    title: str,
    units: int | None = None,
    vocabulary: int | None = None,
    measure: str = "seconds",
    scale: str = "log",
) -> None:
    """Writes the table as CSV, its conditions, and a picture; prints the table.

    If there are several lengths, the picture shows the column `measure` against the length; both axes have the `scale`,
    "log" or "linear". `options` have the `units` and the `vocabulary` if they are not given.
    """
    from memattn.runs import provenance

    keys = list(dict.fromkeys(key for row in rows for key in row if key not in ("notes", "batches at once")))
    table = [{key: row.get(key, "") for key in keys} for row in rows]
    conditions = provenance.conditions()
    layers = "two layers"
    if TRANSFORMERS.keys() & set(options.systems):
        layers += " (the Transformer: three of encoder and of decoder)"
    units, vocabulary = units or options.units, vocabulary or options.vocabulary
    size = f"{layers} of {units} units, vocabulary {vocabulary:,}, {conditions['device']}"
    caption = f"{title}: {size}, {options.threads} threads"
    if (at_once := max(row.get("batches at once", 1) for row in rows)) > 1:
        caption += f"; memattn decodes {'two' if at_once == 2 else at_once} batches at once"
    facts = {
        "title": caption,
        **conditions,
        "repeats": options.repeats,
        "threads": options.threads,
        "load_average": os.getloadavg()[0],
        "systems": {row["system"]: row["notes"] for row in rows},
    }
    files.write_csv(f"{options.output}.csv", table)
    write_conditions(options.output, facts)
    if len({row["L"] for row in rows}) > 1:
        labels = {"title": f"{title}\n{size}", "x": "length L, in tokens", "y": measure}
        plots.times(f"{options.output}.png", system_lines(rows, measure), scale=scale, **labels)
    print(f"\n{title}\n\n{formatting.markdown(table)}")


def write_conditions(output: str, facts: Mapping[str, Any]) -> None:
    """Writes the conditions of a table, by its name, into the conditions.json of its folder, beside those of others."""
    folder, name = os.path.split(output)
    path = os.path.join(folder, "conditions.json")
    others = reading.json_file(path) if os.path.exists(path) else {}
    files.write(path, json.dumps({**others, name: facts}, indent=2) + "\n")


def system_lines(rows: list[dict], measure: str) -> list[Line]:
    """Returns the column `measure` of a table against the length, with its range, for each system."""
    points: dict[str, dict[int, tuple[float, float, float]]] = {}
    for row in rows:
        points.setdefault(row["system"], {})[int(row["L"])] = float(row[measure]), *ends(row["min-max"])
    return [Line(label, _attention(label), points_of_system) for label, points_of_system in points.items()]


def _attention(label: str) -> Mapping[str, Any]:
    """Returns the options of the attention of a system; a label may have the size of the beam after the name."""
    name = re.sub(r", beam \d+$", "", label)
    return (SYSTEMS.get(name) or SYSTEMS[f"memattn: {name}"]).attention


def ends(extent: str) -> tuple[float, float]:
    """Returns the least and the greatest value of a range, as `formatting.extent` writes it."""
    least = re.match(_NUMBER, extent)
    if not least:
        raise ValueError(f"{extent!r} is no range")
    return float(least[0]), float(extent[least.end() + 1 :])


def pivot(rows: list[dict], index: str, columns: str, value: str) -> list[dict]:
    """Returns a table with a row for each value of `index`, a column for each of `columns`, and `value` as entries."""
    table: dict[Any, dict] = {}
    for row in rows:
        table.setdefault(row[index], {index: row[index]})[row[columns]] = row[value]
    return list(table.values())
