"""Compares active memory with attention (Kaiser & Sutskever, 2016; Kaiser & Bengio, 2016)."""

import statistics
from typing import Any, cast

import numpy as np

from memattn.config import NeuralGPUConfig
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation import styles
from memattn.evaluation.evaluate import read_split
from memattn.evaluation.plots import Line
from memattn.models.active_memory import run_cells
from memattn.models.neural_gpu import NeuralGPU
from memattn.runs.trained import Trained, load
from memattn.sweeps.runs import SweepRun
from studies import names, plots
from studies.lengths import bleu_by_length, task_of_length
from studies.output import Output
from studies.runs import count, model_name, model_words, rows_by, scores, summary, task, task_name

DIGITS = (20, 25, 100, 200)  # digits of an operand
NUM_PAIRS = 128  # pairs of each number of digits
_DRAWN_DIGITS = 12  # digits of the operands whose memory is drawn
_DRAWN_MAPS = 6
_MEMORY_LENGTHS = {  # how the length of active memory is chosen, and the overrides of the config
    "estimate": ["decoding.memory_ratio=estimate"],
    "search": ["decoding.memory_ratio=null"],
    "search, length_penalty: 1": ["decoding.memory_ratio=null", "decoding.length_penalty=1"],
}
_F1 = "bracketing_f1"
_PARSING_STEPS = (454, 908, 1362, 1816, 2270, 4086)  # training steps whose validations are shown; 454 are an epoch


def arithmetic(output: Output, runs: list[SweepRun]) -> None:
    """Writes exact matches for operands as long as in training and longer; draws a memory step by step."""
    rows = []
    for run in runs:
        # The last weights: the best are only the first that have no error in validation.
        trained = load([run.folder], ["decoding.beam_size=1"], average=1)
        rows.append(
            {
                "task": task_name(run),
                "model": _model_name(run),
                "seed": run.config.training.seed,
                "training steps": run.validations[-1]["step"],
                "valid, exact match %": f"{run.result.scores['exact_match']:.1f}",
                **{f"{digits} digits": f"{_exact_matches(trained, digits):.0f}%" for digits in DIGITS},
                "training s": f"{float(run.validations[-1]['seconds']):.0f}",
            }
        )
    output.table(rows, "Results that are wholly right, in percent, by the digits of an operand")
    neural_gpu = next((run for run in runs if run.config.model.kind == "neural_gpu"), None)
    if neural_gpu is not None:
        _draw_memory(output, neural_gpu)


def _exact_matches(trained: Trained, digits: int) -> float:
    evaluated = evaluation.evaluate(trained, task_of_length(trained, digits, NUM_PAIRS), repeats=1)
    return evaluated.result.scores["exact_match"]


def _draw_memory(output: Output, run: SweepRun) -> None:
    """Draws the maps of a memory that change most from step to step."""
    trained = load([run.folder], average=1)
    source = task_of_length(trained, _DRAWN_DIGITS, 1).source[0]
    model = cast(NeuralGPU, trained.model)
    encoded = model.encode(np.array([source], np.int32))
    memories = [model.first_memory(encoded)]
    for _ in source:
        memories.append(run_cells(model.encoder, memories[-1], encoded.lengths))
    tokens = [trained.vocabulary.tokens[token] for token in source]
    maps = np.stack(memories)[:, 0, :, 0]  # [steps, n, m], the first column
    most_changing = np.abs(np.diff(maps, axis=0)).mean((0, 1)).argsort()[::-1][:_DRAWN_MAPS]
    name = f"{task(run).name} of numbers of {_DRAWN_DIGITS} digits"
    title = f"{name}: {_DRAWN_MAPS} maps of the memory, step by step{output.label}"
    output.pictures("memory", lambda path: plots.memory(path, tokens, maps[:, :, most_changing], title))


def memory_length(output: Output, runs: list[SweepRun]) -> None:
    """Writes exact matches and decode times on the validation split, by how the length of the memory is chosen."""
    rows = []
    for choice, overrides in _MEMORY_LENGTHS.items():
        results = []
        for run in runs:
            # The last weights: the best were chosen with the estimate.
            trained = load([run.folder], overrides, average=1)
            results.append(evaluation.evaluate(trained, read_split(trained, "valid"), repeats=3).result)
        rows.append(
            {
                "length of the memory": choice,
                "seeds": len(runs),
                **summary("exact match %", [result.scores["exact_match"] for result in results], ".1f"),
                "decode s": f"{statistics.median(result.decode_seconds for result in results):.2f}",
            }
        )
    sources = f"{runs[0].result.sentences:,} sources of the validation split"
    output.table(rows, f"The task duplicate, {sources}: the memory's length estimated or searched")


def translation(output: Output, runs: list[SweepRun]) -> None:
    """Writes perplexity and BLEU of active memory and of attention, and BLEU by the length of the source."""
    rows = []
    for run in runs:
        by_length = {lengths: bleu for (lengths, _), bleu in bleu_by_length([run]).items()}
        rows.append(
            {
                "model": _model_name(run),
                "parameters": f"{run.result.parameters:,}",
                "training steps": run.validations[-1]["step"],
                "training minutes": f"{float(run.validations[-1]['seconds']) / 60:.0f}",
                "perplexity": f"{run.result.scores['perplexity']:.2f}",
                "test BLEU": f"{run.result.scores['bleu']:.2f}",
                **{f"BLEU, {lengths} tokens": f"{bleu:.2f}" for lengths, bleu in by_length.items()},
            }
        )
    output.table(rows, "Multi30k English to German: active memory and attention")
    output.pictures(
        "bleu_by_length", lambda path: draw_translation(path, rows, f"BLEU by the length of the source{output.label}")
    )


def draw_translation(path: str, rows: list[dict[str, str]], title: str) -> None:
    """Draws the columns "BLEU, X tokens" of the table."""
    columns = [column for column in rows[0] if column.startswith("BLEU, ")]
    with plots.picture(path, title, (8, 4)) as axes:
        bleu = {row["model"]: {i: (float(row[column]),) * 3 for i, column in enumerate(columns)} for row in rows}
        plots.draw_lines(axes, [Line(model, _attention(model), points) for model, points in bleu.items()])
        axes.set_xticks(range(len(columns)), [column.removeprefix("BLEU, ") for column in columns])
        axes.set(xlabel="length of the source", ylabel="BLEU", xlim=(0, len(columns) - 1), ylim=(0, None))
        plots.label_ends(axes)


def parsing(output: Output, runs: list[SweepRun]) -> None:
    """Writes F1 on the validation split by training step, and F1 and malformed trees on the test split.

    The columns of the test split are empty for models with an unfinished run.
    """
    rows = rows_by(runs, {"model": model_words}, count, _validation_f1, _test_f1)
    output.table(rows, "Parsing: F1 of labelled brackets, trees of a parser")


def _validation_f1(seeds: list[SweepRun]) -> dict[str, str]:
    """Returns a column for each training step; empty if a run has not come so far."""
    columns = {}
    for step in _PARSING_STEPS:
        f1 = [dict(run.curve(_F1)).get(step) for run in seeds]
        reached = [value for value in f1 if value is not None]
        is_complete = len(reached) == len(seeds)
        columns[f"validation F1, step {step:,}"] = f"{statistics.mean(reached):.1f}" if is_complete else ""
    return columns


def _test_f1(seeds: list[SweepRun]) -> dict[str, str]:
    tested = seeds if all(_F1 in run.result.scores for run in seeds) else []
    malformed = f"{statistics.mean(scores(tested, 'malformed_trees')):.1f}" if tested else ""
    return {**summary("test F1", scores(tested, _F1), ".1f"), "malformed trees, %": malformed}


def _model_name(run: SweepRun) -> str:
    """Returns the kind of a model, with its cell or its attention."""
    model = run.config.model
    if isinstance(model, NeuralGPUConfig):
        return f"{model.kind} {model.cell}, {model.width} x {model.units}"
    return f"{model.encoder.upper()}, {model_name(run)}"


def _attention(name: str) -> dict[str, Any]:
    """Returns the mechanism that gives a model its colour and dash, from the model's name in the table."""
    kind, _, model = name.partition(", ")
    kind = kind.partition(" ")[0]
    return {"name": kind} if kind in styles.STYLES else names.attention(model)
