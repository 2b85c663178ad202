"""The paper's tables and figures from finished runs, each next to the paper's results."""

import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from memattn import files
from memattn.attention.memory import position_encodings
from memattn.config import Config, TrainingConfig
from memattn.data import corpus
from memattn.errors import RunError
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation import formatting, plots
from memattn.runs.trained import load
from memattn.search.searcher import Searcher, translation
from memattn.sweeps import tables
from memattn.sweeps.runner import Run
from studies import plots as study_plots
from studies.britz2017 import printed as paper_tables

SCRIPTS = Path(__file__).resolve().parents[2]
# Scale -> lengths of its copy task -> the paper's.
PRINTED_LENGTHS = {
    "paper": {length: length for length in paper_tables.TABLE_1_BLEU},
    "cpu": {20: 20, 50: 50, 100: 100},
    "small": {5: 20, 10: 50, 20: 100, 40: 200},
}
_OTHER_SETTINGS = "other learning rate and updates"  # at the scale "cpu"
_TIMES = ("decode s", "decode s min-max", "Bahdanau / it", "paper: Bahdanau / it", "training s")


class Output(NamedTuple):
    """A folder for the results of a target at one scale.

    Attributes:
      folder: holds table.csv, table.md, conditions.json, and what else a target writes.
      scale: names the label of titles.
      missing: folders of failed runs, which the results lack.
    """

    folder: str
    scale: str
    missing: list[str] = []

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def table(self, rows: list[dict], title: str) -> None:
        _some(rows, "that the table needs")
        files.write_csv(self.path("table.csv"), rows)
        missing = f"\nRuns that failed and are missing: {', '.join(self.missing)}\n" if self.missing else ""
        markdown = f"{title}{self.label}\n\n{formatting.markdown(rows)}{missing}"
        files.write(self.path("table.md"), markdown)
        print(f"\n{markdown}", flush=True)

    def runs(self, runs: list[Run], title: str) -> None:
        """A row for each run, and another table over seeds if runs differ in seed."""
        rows = [tables.row(run.name, run.config, run.result, run.validations) for run in runs]
        self.table(rows, title)
        if seeds := tables.over_seeds(rows, [run.config for run in runs]):
            files.write_csv(self.path("seeds.csv"), seeds)

    def learning_curves(self, name: str, runs: dict[str, list[Run]], title: str) -> None:
        """A picture and a table of the runs under each name, which differ in seed, at the steps that all have."""
        curves = {label: tables.at_common_steps([dict(run.curve) for run in own]) for label, own in runs.items()}
        rows = [
            {
                "run": label,
                "step": step,
                "seeds": len(bleu),
                "validation BLEU": f"{statistics.mean(bleu):.2f}",
                "min-max": formatting.extent(bleu, ".2f"),
            }
            for label, points in curves.items()
            for step, bleu in points.items()
        ]
        files.write_csv(self.path(f"{name}.csv"), rows)
        self.pictures(name, lambda path: plots.learning_curves(path, curves, f"{title}{self.label}"))

    def pictures(self, name: str, draw: Callable[[str], None]) -> None:
        """A picture by `draw(path)`, for web pages and for papers."""
        for ending in ("png", "svg"):
            draw(self.path(f"{name}.{ending}"))

    @property
    def label(self) -> str:
        return {"small": " (SCALED DOWN)", "cpu": f" ({_OTHER_SETTINGS} THAN THE PAPER'S)".upper()}.get(self.scale, "")


def table_1(output: Output, runs: list[Run]) -> None:
    """Copy task: BLEU, exact matches and times by length and model.

    No times at the scale "cpu", whose rows take hours and come from several machines.
    """
    printed = PRINTED_LENGTHS[output.scale]
    of_paper = f"paper ({_OTHER_SETTINGS})" if output.scale == "cpu" else "paper BLEU"
    rows = []
    for run in runs:
        length, model = run.config.data.copy.max_length, model_name(run)
        same_length = [one for one in runs if one.config.data.copy.max_length == length]
        bahdanau = [one.result["decode_seconds"] for one in same_length if model_name(one) == "bahdanau"]
        place = paper_tables.TABLE_1_MODELS.index(model)
        bleu, seconds = (
            column[printed[length]] for column in (paper_tables.TABLE_1_BLEU, paper_tables.TABLE_1_SECONDS)
        )
        same = paper_tables.table_1(run.config) is not None
        beside = same or output.scale != "paper"  # at another scale, "paper L" and the label say so
        rows.append(
            {
                "L": length,
                "model": model,
                "BLEU": f"{run.result['bleu']:.2f}",
                "exact match %": f"{run.result['exact_match']:.1f}",
                "paper L": printed[length],
                of_paper: f"{bleu[place]:.2f}" if beside else "",
                "difference": f"{run.result['bleu'] - bleu[place]:+.2f}" if same or output.scale == "cpu" else "",
                "decode s": f"{run.result['decode_seconds']:.3g}",
                "decode s min-max": formatting.spread(run.result),
                "Bahdanau / it": f"{bahdanau[0] / run.result['decode_seconds']:.2f}" if bahdanau else "",
                "paper: Bahdanau / it": f"{seconds[-1] / seconds[place]:.2f}" if beside else "",
                "best step": run.result["step"],
                "steps": run.validations[-1]["step"],
                "training s": run.validations[-1]["seconds"],
            }
        )
    if output.scale == "cpu":
        rows = [{column: value for column, value in row.items() if column not in _TIMES} for row in rows]
    rows.sort(key=as_in_table_1)
    output.table(rows, "Table 1: the copy task by length and model")
    files.write_csv(
        output.path("bleu.csv"),
        [_bleu_by_length(model, rows, printed, of_paper) for model in paper_tables.TABLE_1_MODELS],
    )


def as_in_table_1(row: dict) -> tuple[int, int]:
    """The key that sorts rows by length and model as the paper's Table 1 does."""
    return row["L"], paper_tables.TABLE_1_MODELS.index(row["model"])


def _bleu_by_length(model: str, rows: list[dict], printed: Mapping[int, int], of_paper: str) -> dict[str, str]:
    """A model's BLEU at each length, then the paper's, from the rows' column `of_paper`."""
    own = {row["L"]: row for row in rows if row["model"] == model}
    ours = {f"L = {length}": own[length]["BLEU"] if length in own else "" for length in printed}
    theirs = {f"paper: L = {of}": own[length][of_paper] if length in own else "" for length, of in printed.items()}
    return {"model": model, **ours, **theirs}


def table_2(output: Output, runs: list[Run]) -> None:
    """Translation: BLEU of each model with its best scorings by validation BLEU, means over seeds."""
    rows = []
    for (text, model), best in best_scorings(runs).items():
        bleu = [run.result["bleu"] for run in best]
        valid, test = (
            _printed(table, text, model) for table in (paper_tables.TABLE_2_VALID, paper_tables.TABLE_2_TEST)
        )
        rows.append(
            {
                "text": text,
                "model": model,
                "best scorings": scorings_name(best[0]) if is_memory(best[0]) else "",
                "seeds": len(bleu),
                "valid BLEU (greedy)": f"{statistics.mean(map(_valid_bleu, best)):.2f}",
                "paper valid": "" if valid is None else f"{valid:.2f}",
                "test BLEU": f"{statistics.mean(bleu):.2f}",
                "min-max": formatting.extent(bleu, ".2f"),
                "paper test": "" if test is None else f"{test:.2f}",
                "difference": "" if test is None else f"{statistics.mean(bleu) - test:+.2f}",
            }
        )
    output.table(rows, "Table 2: translation, the best scorings of each model by validation BLEU")


def table_3(output: Output) -> None:
    """Decode time at the size of the translation models."""
    size = ["--repeats", "10"] if output.scale == "paper" else ["--repeats", "5", "--examples", "217"]
    benchmark("paper", output, ["memory, K = 32", "memory, K = 64", "Bahdanau"], ["--table", "3", *size])


def figure_2(output: Output) -> None:
    """The surface of the position encodings."""
    output.pictures("surface", lambda path: study_plots.surface(path, position_encodings(32, 100)))


def figure_3(output: Output, copy: list[Run], scorings: list[Run]) -> None:
    """Learning curves of the copy task: models at the greatest length; the four scorings."""
    longest = max(run.config.data.copy.max_length for run in copy)
    models = {model_name(run): [run] for run in copy if run.config.data.copy.max_length == longest}
    combinations = {scorings_name(run): [run] for run in scorings}
    fixed = f"L = {scorings[0].config.data.copy.max_length}, K = {slots_of(scorings[0])}"
    parts = ("a", models, f"L = {longest}"), ("b", combinations, f"scorings, encoder/decoder, {fixed}")
    for part, own, what in parts:
        output.learning_curves(part, own, f"Figure 3{part}: copy task, {what}")


def figure_4(output: Output, runs: list[Run]) -> None:
    """Learning curves of translation: position encodings with sigmoid encoder and softmax decoder scoring."""
    wanted = [
        run for run in runs if not is_memory(run) or (scorings_name(run) == "sigmoid/softmax" and has_encodings(run))
    ]
    _curves(output, _some(wanted, "to be drawn"), model_name, "Figure 4: sigmoid/softmax with position encodings")


def figure_5(output: Output, runs: list[Run]) -> None:
    """Learning curves of translation: the four scorings at the greatest K that has all, without position encodings."""
    by_slots = {}
    for run in runs:
        if is_memory(run) and not has_encodings(run):
            by_slots.setdefault(slots_of(run), []).append(run)
    _some(list(by_slots), "of memory attention without position encodings")
    slots = max(by_slots, key=lambda one: (len({scorings_name(run) for run in by_slots[one]}), one))
    _curves(output, by_slots[slots], scorings_name, f"Figure 5: scorings, encoder/decoder, K = {slots}")


def figure_6(output: Output, runs: list[Run]) -> None:
    """Alignments of copy models for softmax and for sigmoid scorings: single slots, and all together."""
    most = max(map(slots_of, runs))
    _alignments(output, [run for run in runs if slots_of(run) == most], "Figure 6", length=None)


def figure_7(output: Output, runs: list[Run]) -> None:
    """The same with K = 4 on a source of 11 tokens."""
    _alignments(output, _some([run for run in runs if slots_of(run) == 4], "with K = 4"), "Figure 7", length=11)


def figure_8(output: Output, runs: list[Run]) -> None:
    """Alignments of translation with sigmoid scorings and K = 32."""
    _alignments(output, runs, "Figure 8", length=20)


def in_figure_8(config: Config) -> bool:
    """Whether Figure 8 shows the run."""
    attention, first = config.model.attention, config.training.seed == TrainingConfig().seed
    if not first or not config.data.path.endswith("en-de"):
        return False
    return paper_tables.model(attention) == "K=32" and paper_tables.scorings(attention) == "sigmoid/sigmoid"


def _curves(output: Output, runs: list[Run], label: Callable[[Run], str], title: str) -> None:
    """Learning curves of each pair of languages, means over seeds."""
    for text in dict.fromkeys(map(_text, runs)):
        groups = {}
        for run in runs:
            if _text(run) == text:
                groups.setdefault(label(run), []).append(run)
        output.learning_curves(text, groups, f"{title}, {text}")


def _some(runs: list, which: str) -> list:
    """The same runs; raises RunError if there are none."""
    if not runs:
        raise RunError(f"no run {which} succeeded")
    return runs


def _alignments(output: Output, runs: list[Run], title: str, *, length: int | None) -> None:
    """Pictures of how each run aligns one validation source: the first of `length` tokens, or the longest."""
    for run in runs:
        trained = load([run.folder], [], None)
        sentences = corpus.read_corpus(run.config.data.path, "valid", trained.vocabulary).source
        lengths = sentences.lengths() - 1  # without the end of sentence
        wanted = lengths.max() if length is None else lengths[abs(lengths - length).argmin()]
        source = sentences[int((lengths == wanted).argmax())]
        found = Searcher(trained.model, run.config.decoding, trained.lexicon)(source[None])
        hypothesis = translation(found, 0, trained.vocabulary).best
        drawn = evaluation.aligned(trained.model, trained.vocabulary, source, hypothesis)
        heading = f"{title}: {scorings_name(run)}, K = {slots_of(run)}, BLEU {run.result['bleu']:.1f}{output.label}"
        name = scorings_name(run).replace("/", "-")
        output.pictures(name, lambda path, d=drawn, t=heading: plots.alignments(path, *d, title=t))


def benchmark(name: str, output: Output, models: list[str], arguments: list[str]) -> None:
    """Runs a benchmark of memattn's models that writes the results of this target. Raises RunError."""
    table = output.path("table")
    script = str(SCRIPTS / "benchmark.py")
    systems = [argument for model in models for argument in ("--systems", f"memattn: {model}")]
    device = "gpu" if tf.config.list_physical_devices("GPU") else "cpu"
    where = ["--output", table, "--device", device]
    status = subprocess.call([sys.executable, script, name, *where, *arguments, *systems])
    if status:
        raise RunError(f"{script} {name} ended with status {status}")
    os.replace(f"{table}.json", output.path("conditions.json"))
    if os.path.exists(f"{table}.png"):
        os.replace(f"{table}.png", output.path("times.png"))


def best_scorings(runs: list[Run]) -> dict[tuple[str, str], list[Run]]:
    """Text and model -> its runs, one per seed, with the scorings of the best mean validation BLEU."""
    groups = {}
    for run in runs:
        scorings = scorings_name(run) if is_memory(run) else ""
        groups.setdefault((_text(run), model_name(run)), {}).setdefault(scorings, []).append(run)
    return {
        key: max(by_scorings.values(), key=lambda own: statistics.mean(map(_valid_bleu, own)))
        for key, by_scorings in groups.items()
    }


def is_memory(run: Run) -> bool:
    return run.config.model.attention["name"] == "memory"


def slots_of(run: Run) -> int:
    return run.config.model.attention["num_slots"]


def has_encodings(run: Run) -> bool:
    return run.config.model.attention.get("position_encoding", False)


def scorings_name(run: Run) -> str:
    return paper_tables.scorings(run.config.model.attention)


def model_name(run: Run) -> str:
    return paper_tables.model(run.config.model.attention)


def _text(run: Run) -> str:
    """The name of the prepared text, such as wmt17.en-de."""
    return os.path.basename(run.config.data.folder)


def _valid_bleu(run: Run) -> float:
    return max(bleu for _, bleu in run.curve)


def _printed(table: Mapping[str, tuple], text: str, model: str) -> float | None:
    with contextlib.suppress(KeyError, ValueError):
        return table[model][[f"wmt17.{pair}" for pair in paper_tables.TABLE_2_PAIRS].index(text)]
    return None
