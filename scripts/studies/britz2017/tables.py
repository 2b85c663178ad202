"""Writes Tables 1 and 2 of the paper from finished runs, beside the paper's results."""

import statistics
from collections.abc import Mapping

from memattn import files
from memattn.errors import ConfigError
from memattn.sweeps.runs import SweepRun
from studies.britz2017 import printed
from studies.output import OTHER_SETTINGS, Output
from studies.runs import (
    count,
    groups,
    model_name,
    scores,
    scorings_name,
    task_length,
    test_bleu,
    text_name,
    valid_bleu,
)

# Scale -> L of a copy task -> L in the paper's Table 1 that the task stands for.
PRINTED_LENGTHS = {
    "paper": {length: length for length in printed.TABLE_1_BLEU},
    "cpu": {20: 20, 50: 50, 100: 100},
    "small": {5: 20, 10: 50, 20: 100, 40: 200},
}
# Columns of Table 1 that the scale "cpu" leaves out: its runs take hours and come from several machines.
_TIMES = ("decode s", "decode s min-max", "speed-up over Bahdanau", "paper: speed-up over Bahdanau", "training s")


def table_1(output: Output, runs: list[SweepRun]) -> None:
    """Writes BLEU, exact matches and times of the copy task by length and model, and the BLEU alone as bleu.csv."""
    paper_column = f"paper ({OTHER_SETTINGS})" if output.scale == "cpu" else "paper BLEU"
    bahdanau = {task_length(run): run.result.decode_seconds for run in runs if model_name(run) == "bahdanau"}
    rows = [_row_of_table_1(run, output.scale, paper_column, bahdanau) for run in runs]
    if output.scale == "cpu":
        rows = [{column: value for column, value in row.items() if column not in _TIMES} for row in rows]
    rows.sort(key=place_in_table_1)
    output.table(rows, "Table 1: the copy task by length and model")
    lengths = PRINTED_LENGTHS[output.scale]
    models = printed.TABLE_1_MODELS
    files.write_csv(output.path("bleu.csv"), [_bleu_of_model(model, rows, lengths, paper_column) for model in models])


def place_in_table_1(row: dict) -> tuple[int, int]:
    """Returns a key that sorts rows by length and model as the paper's Table 1 does."""
    return row["L"], printed.TABLE_1_MODELS.index(row["model"])


def _row_of_table_1(run: SweepRun, scale: str, paper_column: str, bahdanau: Mapping[int, float]) -> dict:
    """Returns the row of a run; `bahdanau` has the decode time of Bahdanau attention by length."""
    length, model, result = task_length(run), model_name(run), run.result
    paper_length = PRINTED_LENGTHS[scale].get(length)
    if paper_length is None or model not in printed.TABLE_1_MODELS:
        raise ConfigError(f"{run.folder}: the paper's Table 1 has no {model} with L = {length} at scale {scale}")
    column = printed.TABLE_1_MODELS.index(model)
    bleu, seconds = printed.TABLE_1_BLEU[paper_length], printed.TABLE_1_SECONDS[paper_length]
    return {
        "L": length,
        "model": model,
        "BLEU": f"{result.scores['bleu']:.2f}",
        "exact match %": f"{result.scores['exact_match']:.1f}",
        "paper L": paper_length,
        paper_column: f"{bleu[column]:.2f}",
        "difference": "" if scale == "small" else f"{result.scores['bleu'] - bleu[column]:+.2f}",
        "decode s": f"{result.decode_seconds:.3g}",
        "decode s min-max": result.time_range,
        "speed-up over Bahdanau": f"{bahdanau[length] / result.decode_seconds:.2f}" if length in bahdanau else "",
        "paper: speed-up over Bahdanau": f"{seconds[-1] / seconds[column]:.2f}",
        "best step": result.step,
        "steps": run.validations[-1]["step"],
        "training s": run.validations[-1]["seconds"],
    }


def _bleu_of_model(model: str, rows: list[dict], lengths: Mapping[int, int], paper_column: str) -> dict[str, str]:
    """Returns a model's BLEU at each length, then the paper's; empty where the model has no row."""
    by_length = {row["L"]: row for row in rows if row["model"] == model}
    bleu, paper = {}, {}
    for length, paper_length in lengths.items():
        row = by_length.get(length, {})
        bleu[f"L = {length}"] = row.get("BLEU", "")
        paper[f"paper: L = {paper_length}"] = row.get(paper_column, "")
    return {"model": model, **bleu, **paper}


def table_2(output: Output, runs: list[SweepRun]) -> None:
    """Writes BLEU of translation for each model with its best scorings by validation BLEU, means over seeds."""
    rows = []
    for (text, model), seeds in _best_scorings(runs).items():
        paper_valid = _bleu_of_paper(printed.TABLE_2_VALID, text, seeds[0])
        paper_test = _bleu_of_paper(printed.TABLE_2_TEST, text, seeds[0])
        rows.append(
            {
                "text": text,
                "model": model,
                "best scorings": scorings_name(seeds[0]),
                **count(seeds),
                "valid BLEU (greedy)": f"{statistics.mean(map(valid_bleu, seeds)):.2f}",
                "paper valid": "" if paper_valid is None else f"{paper_valid:.2f}",
                **test_bleu(seeds),
                "paper test": "" if paper_test is None else f"{paper_test:.2f}",
                "difference": "" if paper_test is None else f"{statistics.mean(scores(seeds)) - paper_test:+.2f}",
            }
        )
    output.table(rows, "Table 2: translation, the best scorings of each model by validation BLEU")


def _best_scorings(runs: list[SweepRun]) -> dict[tuple[str, str], list[SweepRun]]:
    """Returns (text, model) -> the runs, one per seed, with the scorings that have the best mean validation BLEU."""
    return {
        key: max(groups(same, scorings_name).values(), key=lambda seeds: statistics.mean(map(valid_bleu, seeds)))
        for key, same in groups(runs, text_name, model_name).items()
    }


def _bleu_of_paper(table: Mapping[str, tuple], text: str, run: SweepRun) -> float | None:
    """Returns the paper's BLEU for the model of a run, or None if the table lacks the text or the model."""
    texts, model = [f"wmt17.{pair}" for pair in printed.TABLE_2_PAIRS], model_name(run)
    if text not in texts or model not in table:
        return None
    return table[model][texts.index(text)]
