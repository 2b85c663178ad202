"""Draws the pictures of the documents from the tables in results/."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import plots as benchmark_plots
from benchmarks.tables import ends, system_lines
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memattn import reading
from memattn.attention.memory import position_encodings
from memattn.evaluation import styles
from memattn.evaluation.plots import Line, save
from memattn.sweeps import tables
from studies import names, plots, stored
from studies.britz2017 import printed
from studies.kaiser2016 import translation
from studies.mechanisms import MEMORY_VARIANT, NESTED_MEMORY
from studies.plots import draw_lines, learning_curves
from studies.styles import line_styles, mixed

RESULTS = Path(__file__).resolve().parents[2] / "results"
MEMORY: dict[str, Any] = {"name": "memory", "num_slots": 32}
WINDOWED: dict[str, Any] = {"name": "windowed_memory", "num_slots": 32}
_COMPARED = {styles.words(model): model for model in ({"name": "none"}, MEMORY, WINDOWED, {"name": "bahdanau"})}
_TOKEN_TIME = "microseconds per token"


def trade_off(path: str) -> None:
    """Draws the time of a token and BLEU of copying, each against the length of the source."""
    figure = Figure(figsize=(9.5, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_lines(
        left, system_lines([row for row in _rows("speed/tokens.csv") if row["system"] in _COMPARED], _TOKEN_TIME)
    )
    lengths = [50, 500, 1000, 1500, 2000]
    left.set_xticks(lengths, [f"{length:,}" for length in lengths])
    left.set(xlim=(0, 2000), ylim=(0, None), xlabel="S, length of the source in tokens")
    left.set_ylabel(f"{_TOKEN_TIME} of a hypothesis")
    left.set_title("Time to decode a token", fontsize=11)
    bleu: dict[str, dict] = {}
    for row in _rows("windowed_memory/cpu/table.csv"):
        if row["model"] in _COMPARED:
            bleu.setdefault(row["model"], {})[int(row["L"])] = (float(row["BLEU"]),) * 3
    lines = [Line(name, attention, bleu[name]) for name, attention in _COMPARED.items()]
    longest = max(printed.TABLE_1_BLEU)
    draw_lines(right, [line for line in lines if longest in line.points])
    right.set(xscale="log", xlim=(18, longest), ylim=(28, 102), xlabel="L, length of the longest source in symbols")
    right.set_xticks(list(printed.TABLE_1_BLEU), map(str, printed.TABLE_1_BLEU))
    right.minorticks_off()
    right.set_ylabel("BLEU")
    right.set_title("Copying (squares: the paper)", fontsize=11)
    plots.label_ends(left)
    plots.label_ends(right)
    shorter = [line for line in lines if longest not in line.points]
    draw_lines(right, shorter)  # their names stand at their ends
    for line in shorter:
        end = max(line.points)
        right.annotate(line.name, (end, line.points[end][0]), (5, -10), textcoords="offset points")
        (colour, _), *_ = line_styles([line.attention])
        place = printed.TABLE_1_MODELS.index(names.model(line.attention))
        paper = [scores[place] for scores in printed.TABLE_1_BLEU.values()]
        right.scatter(
            list(printed.TABLE_1_BLEU), paper, marker="s", s=45, color="none", edgecolors=colour, clip_on=False
        )
    save(figure, path)


def errors_by_position(path: str) -> None:
    """Draws wrong tokens by position in the target, for targets of up to 50 symbols."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    lines = []
    for row in (row for row in _rows("errors_by_position/cpu/table.csv") if row["L"] == "50"):
        attention = names.attention(row["model"])
        points = {fifth: (float(row[f"fifth {fifth}"]),) * 3 for fifth in range(1, 6)}
        lines.append(Line(styles.words(attention), attention, points))
    draw_lines(axes, lines)
    axes.set_xticks(range(1, 6), ["1-10", "11-20", "21-30", "31-40", "41-50"])
    axes.set(xlim=(0.8, 5), ylim=(0, None), xlabel="positions in the target", ylabel="wrong tokens, %")
    plots.label_ends(axes)
    save(figure, path)


def long_sources(path: str) -> None:
    """Draws quality and decode time of sources longer than in training."""
    figure = Figure(figsize=(9.5, 7), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    exact: dict[str, dict] = {}
    seconds: dict[str, dict] = {}
    for row in _rows("long_sources/small/table.csv"):
        length, score = int(row["L"]), float(row["exact match %"])
        exact.setdefault(row["model"], {})[length] = (score,) * 3
        seconds.setdefault(row["model"], {})[length] = float(row["decode s"]), *ends(row["decode s min-max"])
    for axes, points_by_model in ((upper, exact), (lower, seconds)):
        models = {name: names.attention(name) for name in points_by_model}
        draw_lines(axes, [Line(styles.words(models[name]), models[name], points_by_model[name]) for name in models])
        axes.set(xscale="log", xlabel="S, length of the source in symbols")
        lengths = list(points_by_model["none"])
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.minorticks_off()
    upper.set(ylim=(0, 102), ylabel="sources without an error, %")
    lower.set(ylim=(0, None), ylabel="seconds to decode 50 sources")
    plots.label_ends(upper)
    plots.label_ends(lower)
    save(figure, path)


def nested_slots(path: str) -> None:
    """Draws BLEU against slots for each task: of one nested model cut to K slots, and of models trained with K."""
    by_task: dict[str, list[dict[str, str]]] = {}
    for row in _rows("nested_slots/small/table.csv"):
        by_task.setdefault(row["task"], []).append(row)
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    all_axes = figure.subplots(2, 3, sharex=True, sharey=True)
    for axes, (task, rows) in zip(all_axes.flat, by_task.items(), strict=True):
        columns: dict[str, tuple[str, dict[str, Any]]] = {
            "trained with K": ("memory, trained with K slots", MEMORY),
            "nested, cut to K": ("nested memory, cut to K slots", {"name": NESTED_MEMORY}),
            "attention": ("Bahdanau", {"name": "bahdanau"}),
        }
        draw_lines(
            axes,
            [
                Line(name, attention, {int(row["K"]): (float(row[column]),) * 3 for row in rows})
                for column, (name, attention) in columns.items()
            ],
        )
        _log_slots(axes, [int(row["K"]) for row in rows])
        axes.grid(False)
        axes.set(ylim=(0, 102))
        axes.set_title(_task(task), fontsize=10)
    for axes in all_axes[1]:
        axes.set_xlabel("K, number of slots")
    for axes in all_axes[:, 0]:
        axes.set_ylabel("validation BLEU")
    figure.legend(handles=all_axes[0, 0].lines, loc="outside lower center", ncols=3, handlelength=3)
    save(figure, path)


def family(path: str) -> None:
    """Draws BLEU of each mechanism in each task."""
    rows = _rows("family/small/table.csv")
    mechanisms = [_mechanism(row["mechanism"]) for row in rows]
    tasks = [column for column in rows[0] if column not in ("mechanism", "Multi30k")]
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[len(tasks), 1])
    for axes, columns, worst, best in ((left, tasks, 20, 100), (right, ["Multi30k"], 6, 26)):
        texts = [[row[column] for column in columns] for row in rows]
        labels = [_task(column).replace(", ", "\n", 1) for column in columns]
        plots.heat_map(axes, np.array(texts, float), texts, mechanisms, labels, worst=worst, best=best)
    left.set_title("BLEU in generated tasks (darker is better)", fontsize=11)
    right.set_title("in translation", fontsize=11)
    right.set_yticks([])
    save(figure, path)


def adding_problem(path: str) -> None:
    """Draws, by K and scorings of a memory, the epochs until every test example of the adding problem is right."""
    column = "epochs to 100% (or % right)"
    cells = {}
    for row in _rows("adding_problem/memory.csv"):
        _, k, scoring = row["model"].split()
        cells[row["task"], k.replace("K=", "K = "), scoring] = row[column]
    tasks, slots, scorings = (list(dict.fromkeys(part)) for part in zip(*cells, strict=True))
    figure = Figure(figsize=(10, 4.8), layout="constrained")
    for axes, task in zip(figure.subplots(2, 1, sharex=True), tasks, strict=True):
        cells_of_task = [[cells[task, k, scoring] for scoring in scorings] for k in slots]
        epochs = np.array([[np.nan if "%" in cell else float(cell) for cell in row] for row in cells_of_task])
        texts = [[_share_right(cell) if "%" in cell else cell for cell in row] for row in cells_of_task]
        labels = [scoring.replace("softmax_time", "softmax over time").replace("/", "/\n") for scoring in scorings]
        plots.heat_map(axes, epochs, texts, slots, labels, worst=10, best=1)
        axes.set_title(f"{task.capitalize()}: epochs until all results are right", fontsize=11)
    note = "white: not all right after 10 epochs; *: the best epoch on the test examples"
    axes.set_xlabel(f"scorings, encoder/decoder (darker is better; {note})")
    save(figure, path)


def _share_right(cell: str) -> str:
    """Returns the text for a share such as "97.4%", which a label in brackets may follow."""
    share, *label = cell.split(maxsplit=1)
    return f"{share} right{'*' if label else ''}"


def libraries(path: str) -> None:
    """Draws decode times of memattn and other libraries as bars."""
    rows = _rows("speed/decode_libraries.csv")
    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, length in zip(figure.subplots(1, 2, sharey=True), ("20", "50"), strict=True):
        lines = system_lines([row for row in rows if row["L"] == length], "seconds")
        for place, line in enumerate(lines):
            ((middle, least, greatest),) = line.points.values()
            ((colour, _),) = line_styles([line.attention])
            if not line.name.startswith("memattn"):
                colour = mixed(colour, "white", 0.55)
            ends = [[middle - least], [greatest - middle]]
            axes.barh(place, middle, color=colour, xerr=ends, error_kw={"elinewidth": 1, "capsize": 2})
            axes.text(greatest, place, f"  {middle:.2f}", va="center")
        axes.set_yticks(range(len(lines)), [line.name for line in lines])
        axes.set(xlabel="seconds", title=f"sources of up to {length} tokens")
        axes.set_xlim(0, 1.15 * max(greatest for line in lines for _, _, greatest in line.points.values()))
        axes.spines[["top", "right"]].set_visible(False)
    axes.invert_yaxis()  # of both, which share it
    save(figure, path)


def times(path: str, table: str, title: str, x: str, y: str, *, scale: str = "log") -> None:
    """Draws the column `y` of a table of times against lengths."""
    benchmark_plots.times(path, system_lines(_rows(table), y), title=title, x=x, y=y, scale=scale)


def curves(path: str, table: str, title: str, memory: dict | None = None) -> None:
    """Draws learning curves from their table; all have the attention `memory`, if given."""
    points: dict[str, dict] = {}
    for row in _rows(table):
        bleu = float(row["validation BLEU"]), *ends(row["min-max"])
        points.setdefault(row["run"], {})[int(row["step"])] = bleu
    models = {name: memory or names.attention(name) for name in points}
    words = {name: name if memory else styles.words(models[name]) for name in points}
    learning_curves(path, [Line(words[name], models[name], points[name]) for name in points], title)


def multi30k(path: str) -> None:
    """Draws learning curves of translation over seeds."""
    models = {  # names of runs without their seeds; the last is windowed memory, which had no name when it was trained
        "bahdanau": {"name": "bahdanau"},
        "memory-num_slots=32-encoder_scoring=softmax-decoder_scoring=sigmoid": MEMORY,
        "memory-num_slots=32-encoder_scoring=softmax_time-position_windows=True-read=additive-read_units=128": WINDOWED,
    }
    lines = [_curve("multi30k/small", f"{name}-seed=*", attention) for name, attention in models.items()]
    learning_curves(path, lines, "Translation, scaled down: windowed memory ends near attention")


def copying(path: str) -> None:
    """Draws learning curves of copying up to 100 symbols with models of the paper's size."""
    models = {"memory": MEMORY, "windowed_memory": WINDOWED, "bahdanau": {"name": "bahdanau"}}
    lines = [_curve("windowed_memory/cpu", f"max_length=100-{name}-*", models[name]) for name in models]
    learning_curves(path, lines, "Copying, L = 100: windowed memory follows attention, the paper's memory is slower")


def active_translation(path: str) -> None:
    """Draws BLEU of active memory and of attention by the length of the source."""
    title = "Translation, scaled down: active memory hardly translates after two epochs"
    translation.draw(path, _rows("active_translation/small/table.csv"), title)


def _rows(table: str) -> list[dict[str, str]]:
    return reading.csv_file(str(RESULTS / table))


def _curve(folder: str, pattern: str, attention: dict) -> Line:
    """Returns the learning curve of the stored runs of a folder of results/ whose names fit the pattern."""
    curves = [
        {int(row["step"]): float(row["bleu"]) for row in stored.validations(run)}
        for name, run in stored.read(folder).items()
        if fnmatchcase(name, pattern)
    ]
    return Line(styles.words(attention), attention, tables.mean_and_range(curves))


def _log_slots(axes: Axes, slots: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(slots, map(str, slots))
    axes.minorticks_off()


def _task(name: str) -> str:
    return name.replace("selective_copy", "selective copy").replace(", 4 marked", "")


def _mechanism(name: str) -> str:
    return name if name == "RNNsearch" else styles.words(names.attention(name.removeprefix("memory, ")))


# Pictures, by path from the root of the repository: each is drawn by a call with its absolute path.
PICTURES: dict[str, Callable[[str], None]] = {
    "docs/pictures/trade_off.svg": trade_off,
    "docs/pictures/copying.svg": copying,
    "docs/pictures/errors_by_position.svg": errors_by_position,
    "docs/pictures/mechanisms_by_task.svg": family,
    "docs/pictures/tokens_of_mechanisms.svg": partial(
        times,
        table="speed/tokens_family.csv",
        x="S, length of the source in tokens",
        y="microseconds per token",
        title="Time to decode a token of a hypothesis: two layers of 128 units, CPU, AMD EPYC",
    ),
    "docs/pictures/long_sources.svg": long_sources,
    "docs/pictures/nested_slots.svg": nested_slots,
    "docs/pictures/adding_problem.svg": adding_problem,
    "docs/pictures/libraries.svg": libraries,
    "docs/tutorials/pictures/compare_curves.png": partial(
        curves, table="compare_mechanisms/small/learning_curves.csv", title="Copying, L = 10, scaled down"
    ),
    "results/figure2/small/surface.png": partial(plots.surface, encodings=position_encodings(32, 100)),
    "results/figure3/small/a.png": partial(
        curves,
        table="figure3/small/a.csv",
        title="Copying, L = 40, scaled down: attention learns first, then K = 32 (Figure 3a)",
    ),
    "results/figure3/small/b.png": partial(
        curves,
        table="figure3/small/b.csv",
        title="Copying, L = 20, scaled down: sigmoid/sigmoid learns last (Figure 3b)",
        memory=MEMORY,
    ),
    "results/figure4/small/multi30k.en-de.png": partial(
        curves,
        table="figure4/small/multi30k.en-de.csv",
        title="Translation, scaled down: memory learns sooner, and ends lower (Figure 4)",
    ),
    "results/figure5/small/multi30k.en-de.png": partial(
        curves,
        table="figure5/small/multi30k.en-de.csv",
        title="Translation, scaled down: softmax/softmax stays far below (Figure 5)",
        memory=MEMORY,
    ),
    "results/multi30k/small/learning_curves.png": multi30k,
    "results/windows/small/learning_curves.png": partial(
        curves,
        table="windows/small/learning_curves.csv",
        title="Copying, L = 40, scaled down: with windows, a memory learns fastest",
        memory={"name": MEMORY_VARIANT, "num_slots": 16},
    ),
    "results/active_translation/small/bleu_by_length.png": active_translation,
    "results/speed/decode.png": partial(
        times,
        table="speed/decode.csv",
        x="L, greatest length of a source in tokens",
        y="seconds",
        title="Decode time of 128 sources, beam 10: two layers of 256 units, CPU, AMD EPYC",
    ),
    "results/speed/tokens.png": partial(
        times,
        table="speed/tokens.csv",
        x="S, length of the source in tokens",
        y="microseconds per token",
        title="With a memory, the time of a token does not grow (256 units, Intel Xeon)",
        scale="linear",
    ),
    "results/training_cost/small/times.png": partial(
        times,
        table="training_cost/small/table.csv",
        x="L, length of source and target in tokens",
        y="seconds",
        title="A training step: with memory, a quarter less time at L = 100 (AMD EPYC)",
    ),
}
