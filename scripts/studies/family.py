"""Compares every mechanism on the same tasks, and RNNsearch by the length of the source."""

import math
from collections.abc import Callable
from typing import cast

from memattn import files
from memattn.config import Seq2SeqConfig
from memattn.evaluation import formatting
from memattn.sweeps.runs import SweepRun
from studies.lengths import bleu_by_length
from studies.output import Output
from studies.runs import groups, is_memory, mean_score, median_steps, model_name, scores, task_name


def family(
    output: Output,
    tasks: list[SweepRun],
    rnnsearch: list[SweepRun],
    translation: list[SweepRun],
    rnnsearch_translation: list[SweepRun],
) -> None:
    """Writes BLEU of each mechanism in each task; then exact matches, steps to 95 BLEU, range of BLEU."""
    longest = max(map(_max_length, rnnsearch_translation))
    trained_on_all = [
        run for run in rnnsearch_translation if _max_length(run) == longest and model_name(run) == "bahdanau"
    ]
    seeds = groups([*tasks, *rnnsearch, *translation, *trained_on_all], _mechanism, _task)
    mechanisms, columns = (list(dict.fromkeys(part)) for part in zip(*seeds, strict=True))

    def rows(cell: Callable[[list[SweepRun]], str]) -> list[dict]:
        return [
            {"mechanism": row, **{task: cell(seeds[row, task]) if (row, task) in seeds else "" for task in columns}}
            for row in mechanisms
        ]

    output.table(rows(mean_score), "BLEU of each mechanism in each task")
    cells = {
        "exact": lambda runs: mean_score(runs, "exact_match", ".1f"),
        "steps": median_steps,
        "seeds": lambda runs: formatting.extent(scores(runs), ".2f") if len(runs) > 1 else "",
    }
    for name, cell in cells.items():
        files.write_csv(output.path(f"{name}.csv"), rows(cell))


def rnnsearch_by_length(output: Output, runs: list[SweepRun]) -> None:
    """Writes BLEU by source length of models that were trained on sentences of up to some length.

    Lengths do not count the end of sentence.
    """
    by_model = {f"{model_name(run)}, trained to {_max_length(run) - 1}": bleu_by_length([run]) for run in runs}
    rows = []
    for quarter in next(iter(by_model.values())):
        lengths, sentences = quarter
        bleu = {name: f"{quarters[quarter]:.2f}" for name, quarters in by_model.items()}
        rows.append({"source tokens": lengths, "sentences": sentences, **bleu})
    output.table(rows, "RNNsearch: BLEU by the length of the source")


def _mechanism(run: SweepRun) -> str:
    name = model_name(run)
    if is_memory(run):
        return f"memory, {name}"
    decoder = cast(Seq2SeqConfig, run.config.model).decoder
    return "RNNsearch" if (decoder, name) == ("rnnsearch", "bahdanau") else name


def _task(run: SweepRun) -> str:
    return task_name(run) if run.config.data.generated else "Multi30k"


def _max_length(run: SweepRun) -> float:
    """Returns the length of the longest source in training, with its end of sentence."""
    return run.config.data.max_source_length or math.inf
