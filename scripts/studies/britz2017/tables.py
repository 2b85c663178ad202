"""Writes Tables 1 and 2 of the paper from finished runs, beside the paper's results."""

import statistics
from collections.abc import Mapping
from operator import itemgetter

from benchmarks.tables import pivot

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


def table_1(output: Output, runs: list[SweepRun]) -> None:
    """Writes BLEU and exact matches of the copy task by length and model, and the BLEU alone as bleu.csv."""
    paper_column = f"paper ({OTHER_SETTINGS})" if output.scale == "cpu" else "paper BLEU"
    rows = [_row_of_table_1(run, output.scale, paper_column) for run in runs]
    rows.sort(key=place_in_table_1)
    output.table(rows, "Table 1: the copy task by length and model")
    bleu = pivot(rows, "model", lambda row: f"L = {row['L']}", itemgetter("BLEU"))
    paper = pivot(rows, "model", lambda row: f"paper: L = {row['paper L']}", itemgetter(paper_column))
    files.write_csv(output.path("bleu.csv"), [ours | theirs for ours, theirs in zip(bleu, paper, strict=True)])


def place_in_table_1(row: dict) -> tuple[int, int]:
    """Returns a key that sorts rows by length and model as the paper's Table 1 does."""
    return row["L"], printed.TABLE_1_MODELS.index(row["model"])


def _row_of_table_1(run: SweepRun, scale: str, paper_column: str) -> dict:
    length, model, result = task_length(run), model_name(run), run.result
    paper_length = PRINTED_LENGTHS[scale].get(length)
    if paper_length is None or model not in printed.TABLE_1_MODELS:
        raise ConfigError(f"{run.folder}: the paper's Table 1 has no {model} with L = {length} at scale {scale}")
    paper_bleu = printed.TABLE_1_BLEU[paper_length][printed.TABLE_1_MODELS.index(model)]
    return {
        "L": length,
        "model": model,
        "BLEU": f"{result.scores['bleu']:.2f}",
        "exact match %": f"{result.scores['exact_match']:.1f}",
        "paper L": paper_length,
        paper_column: f"{paper_bleu:.2f}",
        "difference": "" if scale == "small" else f"{result.scores['bleu'] - paper_bleu:+.2f}",
        "best step": result.step,
        "steps": run.validations[-1]["step"],
    }


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
