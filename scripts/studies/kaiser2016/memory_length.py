"""Compares an estimate of the length of active memory with a search over all lengths (Kaiser & Bengio, 2016)."""

import statistics

from memattn.evaluation import evaluate as evaluation
from memattn.evaluation import formatting
from memattn.evaluation.test_set import read_split
from memattn.runs.result import Result
from memattn.runs.trained import load
from memattn.sweeps.results import SweepRun
from studies.output import Output

_CHOICES = {  # how the length is chosen, and the overrides of the config
    "estimate": ["decoding.memory_ratio=estimate"],
    "search": ["decoding.memory_ratio=null"],
    "search, length_penalty: 1": ["decoding.memory_ratio=null", "decoding.length_penalty=1"],
}


def memory_length(output: Output, runs: list[SweepRun]) -> None:
    """Writes exact matches and decode times on the validation split, by how the length is chosen."""
    results_by_choice: dict[str, list[Result]] = {choice: [] for choice in _CHOICES}
    for run in runs:
        for choice, overrides in _CHOICES.items():
            trained = load([run.folder], overrides, 1)  # the last weights: the best were chosen with the estimate
            results_by_choice[choice].append(
                evaluation.evaluate(trained, read_split(trained, "valid"), repeats=3).result
            )
    rows = []
    for choice, results in results_by_choice.items():
        exact = [result.scores["exact_match"] for result in results]
        rows.append(
            {
                "length of the memory": choice,
                "seeds": len(runs),
                "exact match %": f"{statistics.mean(exact):.1f}",
                "min-max": formatting.extent(exact, ".1f"),
                "decode s": f"{statistics.median(result.decode_seconds for result in results):.2f}",
            }
        )
    sources = f"{runs[0].result.sentences:,} sources of the validation split"
    output.table(rows, f"The task duplicate, {sources}: the memory's length estimated or searched")
