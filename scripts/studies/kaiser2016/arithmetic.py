"""Tests active memory in arithmetic on longer numbers than in training (Kaiser & Sutskever, 2016)."""

from typing import cast

import numpy as np

from memattn.evaluation import evaluate as evaluation
from memattn.models.neural_gpu.model import NeuralGPU
from memattn.runs.trained import Trained, load
from memattn.sweeps.results import SweepRun
from studies import plots
from studies.kaiser2016.names import model_name
from studies.lengths import task_of_length
from studies.output import Output
from studies.runs import task, task_name

DIGITS = (20, 25, 100, 200)  # digits of an operand
NUM_PAIRS = 128  # pairs of each number of digits
_DRAWN_DIGITS = 12  # digits of the operands whose memory is drawn
_DRAWN_MAPS = 6


def arithmetic(output: Output, runs: list[SweepRun]) -> None:
    """Writes exact matches for operands as long as in training and longer; draws a memory step by step."""
    rows = []
    for run in runs:
        # The last weights: the best are only the first that have no error in validation.
        trained = load([run.folder], ["decoding.beam_size=1"], 1)
        rows.append(
            {
                "task": task_name(run),
                "model": model_name(run),
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
    trained = load([run.folder], [], 1)
    source = task_of_length(trained, _DRAWN_DIGITS, 1).source[0]
    model = cast(NeuralGPU, trained.model)
    memory = model.unrolled(model.encode(np.array([source], np.int32)))[:, 0].numpy()
    tokens = [trained.vocabulary.tokens[token] for token in source]
    maps = memory[:, :, 0]  # [steps, n, m], the first column
    most_changing = np.abs(np.diff(maps, axis=0)).mean((0, 1)).argsort()[::-1][:_DRAWN_MAPS]
    name = f"{task(run).name} of numbers of {_DRAWN_DIGITS} digits"
    title = f"{name}: {_DRAWN_MAPS} maps of the memory, step by step{output.label}"
    output.pictures("memory", lambda path: plots.memory(path, tokens, maps[:, :, most_changing], title))
