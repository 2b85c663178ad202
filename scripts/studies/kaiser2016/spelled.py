"""Compares BPE with words, of which the rare ones are spelled out (Kaiser & Bengio, 2016)."""

import statistics

from memattn.evaluation import formatting
from memattn.sweeps.results import SweepRun
from studies.output import Output
from studies.runs import groups, model_words, text_name


def spelled(output: Output, runs: list[SweepRun]) -> None:
    """Writes the test BLEU of models whose text is in BPE units, or in words with the rare ones spelled out."""
    rows = []
    for (units, model), seeds in groups(runs, _units, model_words).items():
        bleu = [run.result.scores["bleu"] for run in seeds]
        rows.append(
            {
                "units": units,
                "model": model,
                "seeds": len(seeds),
                "parameters": f"{seeds[0].result.parameters:,}",
                "test BLEU": f"{statistics.mean(bleu):.2f}",
                "min-max": formatting.extent(bleu, ".2f"),
            }
        )
    output.table(rows, "Multi30k English to German: rare words spelled out, and BPE")


def _units(run: SweepRun) -> str:
    return "words and characters" if text_name(run).endswith(".spelled") else "BPE"
