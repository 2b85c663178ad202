"""Draws the pictures of the documents from the tables in results/."""

import os
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from itertools import starmap
from typing import Any

import numpy as np
from benchmarks.tables import draw, measured_rows, system_lines, table_points

from memattn import files
from memattn.attention.memory import position_encodings
from memattn.evaluation import styles
from memattn.evaluation.plots import Line, Point
from memattn.sweeps import tables
from studies import kaiser2016, names, plots, stored
from studies.britz2017 import printed
from studies.mechanisms import MEMORY_VARIANT, NESTED_MEMORY
from studies.plots import draw_lines, learning_curves, picture
from studies.styles import line_styles, mixed

MEMORY: dict[str, Any] = {"name": "memory", "num_slots": 32}
WINDOWED: dict[str, Any] = {"name": "windowed_memory", "num_slots": 32}
_COMPARED = {styles.words(model): model for model in ({"name": "none"}, MEMORY, WINDOWED, {"name": "bahdanau"})}
_TOKEN_TIME, _SOURCE_LENGTH = "microseconds per token", "S, length of the source in tokens"


def trade_off(path: str) -> None:
    """Draws the time of a token and BLEU of copying, each against the length of the source."""
    with picture(path, "", (9.5, 3.9), 1, 2) as (left, right):
        rows = [row for row in _rows("speed/tokens.csv", "tokens") if row["system"] in _COMPARED]
        draw_lines(left, system_lines(rows, _TOKEN_TIME))
        lengths = [50, 500, 1000, 1500, 2000]
        left.set_xticks(lengths, [f"{length:,}" for length in lengths])
        left.set(xlim=(0, 2000), ylim=(0, None), xlabel=_SOURCE_LENGTH)
        left.set_ylabel(f"{_TOKEN_TIME} of a hypothesis")
        left.set_title("With a memory, the time of a token does not grow", fontsize=11, loc="left", pad=14)
        bleu = table_points(_rows("windowed_memory/cpu/table.csv"), "model", "L", "BLEU")
        lines = [Line(name, attention, bleu[name]) for name, attention in _COMPARED.items()]
        longest = max(printed.TABLE_1_BLEU)
        draw_lines(right, [line for line in lines if longest in line.points])
        plots.log_axis(right, list(printed.TABLE_1_BLEU))
        right.set(
            xlim=(18, longest),
            ylim=(28, 102),
            xlabel="L, length of the longest source in symbols",
            ylabel="BLEU (squares: the paper)",
        )
        right.set_title("Copying: windowed memory stays near attention", fontsize=11, loc="left", pad=14)
        plots.label_ends(left)
        plots.label_ends(right)
        shorter = [line for line in lines if longest not in line.points]
        draw_lines(right, shorter)  # their names stand at their ends
        for line in shorter:
            end = max(line.points)
            right.annotate(line.name, (end, line.points[end][0]), (5, -10), textcoords="offset points")
            (colour, _), *_ = line_styles([line.attention])
            column = printed.TABLE_1_MODELS.index(names.model(line.attention))
            paper = [scores[column] for scores in printed.TABLE_1_BLEU.values()]
            right.scatter(
                list(printed.TABLE_1_BLEU), paper, marker="s", s=45, color="none", edgecolors=colour, clip_on=False
            )


def errors_by_position(path: str) -> None:
    """Draws wrong tokens by position in the target, for targets of up to 50 symbols."""
    with picture(path, "Copying 50 symbols: errors are fewest at the start of the target", (8, 4.5)) as axes:
        rows = [row for row in _rows("errors_by_position/cpu/table.csv") if row["L"] == "50"]
        wrong = {row["model"]: {part: (float(row[f"fifth {part}"]),) * 3 for part in range(1, 6)} for row in rows}
        draw_lines(axes, list(starmap(_line, wrong.items())))
        axes.set_xticks(range(1, 6), ["1-10", "11-20", "21-30", "31-40", "41-50"])
        axes.set(xlim=(0.8, 5), ylim=(0, None), xlabel="positions in the target", ylabel="wrong tokens, %")
        plots.label_ends(axes)


def long_sources(path: str) -> None:
    """Draws quality and decode time of sources longer than in training."""
    title = "Slots that are sums fail on long sources; means that are read by address do not"
    with picture(path, title, (9.5, 7), 2, 1) as (upper, lower):
        rows = _rows("long_sources/small/table.csv")
        exact = table_points(rows, "model", "L", "exact match %")
        seconds = table_points(rows, "model", "L", "decode s", "decode s min-max")
        for axes, points_by_model in ((upper, exact), (lower, seconds)):
            draw_lines(axes, list(starmap(_line, points_by_model.items())))
            axes.set_xlabel("S, length of the source in symbols")
            plots.log_axis(axes, list(points_by_model["none"]))
        upper.set(ylim=(0, 102), ylabel="sources without an error, %")
        lower.set(ylim=(0, None), ylabel="seconds to decode 50 sources")
        plots.label_ends(upper)
        plots.label_ends(lower)


def nested_slots(path: str) -> None:
    """Draws BLEU against slots for each task: of one nested model cut to K slots, and of models trained with K."""
    columns: dict[str, tuple[str, dict[str, Any]]] = {
        "trained with K": ("memory, trained with K slots", MEMORY),
        "nested, cut to K": ("nested memory, cut to K slots", {"name": NESTED_MEMORY}),
        "attention": ("Bahdanau", {"name": "bahdanau"}),
    }
    rows = _rows("nested_slots/small/table.csv")
    bleu = {column: table_points(rows, "task", "K", column) for column in columns}
    title = "A nested memory cut to few slots is mostly worse than one trained with so few"
    with picture(path, title, (10, 5.5), 2, 3, sharex=True, sharey=True) as all_axes:
        for axes, task in zip(all_axes.flat, bleu["attention"], strict=True):
            draw_lines(axes, [Line(*model, bleu[column][task]) for column, model in columns.items()])
            plots.log_axis(axes, list(bleu["attention"][task]), base=2)
            axes.grid(False)
            axes.set(ylim=(0, 102))
            axes.set_title(_task(task), fontsize=10)
        for axes in all_axes[1]:
            axes.set_xlabel("K, number of slots")
        for axes in all_axes[:, 0]:
            axes.set_ylabel("validation BLEU")
        all_axes[0, 0].figure.legend(handles=all_axes[0, 0].lines, loc="outside lower center", ncols=3, handlelength=3)


def family(path: str) -> None:
    """Draws BLEU of each mechanism in each task; that of windowed memory comes from other studies."""
    rows = _rows("family/small/table.csv")
    mechanisms = [_mechanism(row["mechanism"]) for row in rows]
    tasks = [column for column in rows[0] if column not in ("mechanism", "Multi30k")]
    after = mechanisms.index(styles.words(MEMORY)) + 1
    mechanisms.insert(after, "windowed memory, K = 16*")
    rows.insert(after, _windowed_copying())
    with picture(path, "", (9, 5.5), 1, 2, width_ratios=[len(tasks), 1]) as (left, right):
        for axes, columns, worst, best in ((left, tasks, 20, 100), (right, ["Multi30k"], 6, 26)):
            texts = [[row.get(column, "") for column in columns] for row in rows]
            values = np.array([[float(text or "nan") for text in row] for row in texts])
            labels = [_task(column).replace(", ", "\n", 1) for column in columns]
            plots.heat_map(axes, values, texts, mechanisms, labels, worst=worst, best=best)
        left.set_xlabel("* other studies: a wider encoder; at L = 40, decoders start from its final states")
        left.set_title("BLEU in generated tasks (darker is better)", fontsize=11)
        right.set_title("in translation", fontsize=11)
        right.set_yticks([])


def _windowed_copying() -> dict[str, str]:
    """Returns BLEU of windowed memory with 16 slots, by copy task."""
    (short,) = [row for row in _rows("bridge/small/table.csv") if row["model"] == "windowed memory, K = 16"]
    parts = "windows, softmax over time, additive reading"
    (long,) = [row for row in _rows("windows/small/table.csv") if row["model"] == parts]
    return {short["task"]: short["zero: BLEU"], "copy, L = 40": long["BLEU"]}


def adding_problem(path: str) -> None:
    """Draws, by K and scorings of a memory, the epochs until every test example of the adding problem is right."""
    column = "epochs to 100% (or % right)"
    cells = {}
    for row in _rows("adding_problem/memory.csv"):
        _, k, scoring = row["model"].split()
        cells[row["task"], k.replace("K=", "K = "), scoring] = row[column]
    tasks, slots, scorings = (list(dict.fromkeys(part)) for part in zip(*cells, strict=True))
    with picture(path, "", (10, 4.8), 2, 1, sharex=True) as all_axes:
        for axes, task in zip(all_axes, tasks, strict=True):
            cells_of_task = [[cells[task, k, scoring] for scoring in scorings] for k in slots]
            epochs = np.array([[np.nan if "%" in cell else float(cell) for cell in row] for row in cells_of_task])
            texts = [
                [cell.replace("%", "% right").replace(" (best epoch on test)", "*") for cell in row]
                for row in cells_of_task
            ]
            labels = [scoring.replace("softmax_time", "softmax over time").replace("/", "/\n") for scoring in scorings]
            plots.heat_map(axes, epochs, texts, slots, labels, worst=10, best=1)
            axes.set_title(f"{task.capitalize()}: epochs until all results are right", fontsize=11)
        note = "white: not all right after 10 epochs; *: the best epoch on the test examples"
        axes.set_xlabel(f"scorings, encoder/decoder (darker is better; {note})")


def libraries(path: str) -> None:
    """Draws decode times of memattn and other libraries as bars."""
    rows = _rows("speed/decode.csv", "decode_libraries")
    with picture(path, "memattn decodes faster than five other libraries", (10, 4), 1, 2, sharey=True) as all_axes:
        for axes, length in zip(all_axes, ("20", "50"), strict=True):
            lines = system_lines([row for row in rows if row["L"] == length], "seconds")
            for index, line in enumerate(lines):
                ((middle, least, greatest),) = line.points.values()
                ((colour, _),) = line_styles([line.attention])
                if not line.name.startswith("memattn"):
                    colour = mixed(colour, "white", 0.55)
                errors = [[middle - least], [greatest - middle]]
                axes.barh(index, middle, color=colour, xerr=errors, error_kw={"elinewidth": 1, "capsize": 2})
                axes.text(greatest, index, f"  {middle:.2f}", va="center")
            axes.set_yticks(range(len(lines)), [line.name for line in lines])
            axes.set(xlabel="seconds", title=f"sources of up to {length} tokens")
            axes.set_xlim(0, 1.15 * max(greatest for line in lines for _, _, greatest in line.points.values()))
            axes.spines[["top", "right"]].set_visible(False)
        axes.invert_yaxis()  # of both, which share it


def times(
    path: str, table: str, title: str, x: str, y: str = "seconds", *, of: str | None = None, scale: str = "log"
) -> None:
    """Draws the column `y` of a table of times against lengths; of several measurements in it, that named `of`.

    The title names the machine, as the conditions do.
    """
    folder, name = os.path.split(table)
    conditions = files.read_json(str(stored.RESULTS / folder / "conditions.json"))[of or name]
    device = re.sub(r"\(R\)| Processor", "", conditions["device"])
    lines = system_lines(_rows(f"{table}.csv", of), y)
    draw(path, lines, title=f"{title}, {device}", x=x, y=y, scale=scale)


def speech_time(path: str) -> None:
    """Draws the time of a character of speech against the frames of the source; a state is four frames."""
    rows = [{**row, "L": row.get("frames") or 4 * int(row["L"])} for row in _rows("speech_time/small/table.csv")]
    lines = system_lines(rows, _TOKEN_TIME)
    title = "Time to decode a character, 4 frames for each state of the encoder (scaled down)"
    draw(path, lines, title=title, x="frames of the source", y="microseconds per character", scale="linear")


def curves(path: str, table: str, title: str, memory: dict | None = None) -> None:
    """Draws learning curves from their table; all have the attention `memory`, if given."""
    bleu = table_points(_rows(table), "run", "step", "validation BLEU", "min-max")
    lines = [Line(name, memory, points) if memory else _line(name, points) for name, points in bleu.items()]
    learning_curves(path, lines, title)


def speech(path: str) -> None:
    """Draws learning curves of five of the models that recognize speech, with one seed."""
    models = ({"name": "none"}, MEMORY, {**WINDOWED, "read": "address"}, {"name": "bahdanau"}, {"name": "luong_dot"})
    errors = table_points(_rows("speech/small/learning_curves.csv"), "model", "step", "validation CER %")
    lines = [Line(styles.words(model), model, errors[styles.words(model)]) for model in models]
    title = "Speech, scaled down: windowed memory, read by address, learns fastest"
    learning_curves(path, lines, title, "CER %")


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


def _rows(table: str, measurement: str | None = None) -> list[dict[str, str]]:
    return measured_rows(str(stored.RESULTS / table), measurement)


def _line(name: str, points: dict[int, Point]) -> Line:
    """Returns the line of a model that has this name in tables."""
    attention = names.attention(name)
    return Line(styles.words(attention), attention, points)


def _curve(folder: str, pattern: str, attention: dict) -> Line:
    """Returns the learning curve of the stored runs of a folder of results/ whose names fit the pattern."""
    curves = [
        {int(row["step"]): float(row["bleu"]) for row in stored.validations(run)}
        for name, run in stored.read(folder).items()
        if fnmatchcase(name, pattern)
    ]
    return Line(styles.words(attention), attention, tables.mean_and_range(curves))


def _task(name: str) -> str:
    return name.replace("selective_copy", "selective copy").replace(", 4 marked", "")


def _mechanism(name: str) -> str:
    return name if name == "RNNsearch" else styles.words(names.attention(name.removeprefix("memory, ")))


# Learning curves: path in results/ of a picture and of its table, without their endings -> title, and the attention of
# all lines, or None if their labels name models.
_CURVES: dict[str, tuple[str, dict[str, Any] | None]] = {
    "figure3/small/a": ("Copying, L = 40, scaled down: attention learns first, then K = 32 (Figure 3a)", None),
    "figure3/small/b": ("Copying, L = 20, scaled down: sigmoid/sigmoid learns last (Figure 3b)", MEMORY),
    "figure4/small/multi30k.en-de": ("Translation, scaled down: memory learns sooner, and ends lower (Figure 4)", None),
    "figure5/small/multi30k.en-de": ("Translation, scaled down: softmax/softmax stays far below (Figure 5)", MEMORY),
    "windows/small/learning_curves": (
        "Copying, L = 40, scaled down: with windows, a memory learns fastest",
        {"name": MEMORY_VARIANT, "num_slots": 16},
    ),
}
# Pictures, by path from the root of the repository: each is drawn by a call with its absolute path.
PICTURES: dict[str, Callable[[str], None]] = {
    "docs/pictures/trade_off.svg": trade_off,
    "docs/pictures/copying.svg": copying,
    "docs/pictures/errors_by_position.svg": errors_by_position,
    "docs/pictures/mechanisms_by_task.svg": family,
    "docs/pictures/tokens_of_mechanisms.svg": partial(
        times,
        table="speed/tokens",
        of="tokens_family",
        x=_SOURCE_LENGTH,
        y=_TOKEN_TIME,
        title="Time of a token: with memory or linear attention, it hardly grows; two layers of 128 units",
    ),
    "docs/pictures/long_sources.svg": long_sources,
    "docs/pictures/nested_slots.svg": nested_slots,
    "docs/pictures/adding_problem.svg": adding_problem,
    "docs/pictures/libraries.svg": libraries,
    "docs/tutorials/pictures/compare_curves.png": partial(
        curves, table="compare_mechanisms/small/learning_curves.csv", title="Copying, L = 10, scaled down"
    ),
    "results/figure2/small/surface.png": partial(plots.surface, encodings=position_encodings(32, 100)),
    **{
        f"results/{path}.png": partial(curves, table=f"{path}.csv", title=title, memory=memory)
        for path, (title, memory) in _CURVES.items()
    },
    "results/multi30k/small/learning_curves.png": multi30k,
    "results/speech/small/learning_curves.png": speech,
    "results/active_translation/small/bleu_by_length.png": lambda path: kaiser2016.draw_translation(
        path,
        _rows("active_translation/small/table.csv"),
        "Translation, scaled down: active memory hardly translates after two epochs",
    ),
    "results/speed/decode.png": partial(
        times,
        table="speed/decode",
        of="decode",
        x="L, greatest length of a source in tokens",
        title="Decode time of 128 sources, beam 10: two layers of 256 units",
    ),
    "results/speed/tokens.png": partial(
        times,
        table="speed/tokens",
        of="tokens",
        x=_SOURCE_LENGTH,
        y=_TOKEN_TIME,
        title="With a memory, the time of a token does not grow: 256 units",
        scale="linear",
    ),
    "results/speech_time/small/times.png": speech_time,
    "results/training_cost/small/times.png": partial(
        times,
        table="training_cost/small/table",
        x="L, length of source and target in tokens",
        title="A training step: with memory, a quarter less time at L = 100",
    ),
}
