"""Active memory beside attention: arithmetic on longer numbers than in training, and translation."""

import numpy as np
from benchmarks import plots as benchmark_plots

from memattn.evaluation import evaluate as evaluation
from memattn.runs.trained import load
from memattn.sweeps.runner import Run
from studies import plots
from studies.britz2017.figures import Output, model_name
from studies.britz2017.future_work import of_length, task_name
from studies.britz2017.open_questions import by_length

_DIGITS, _SUMS = (20, 25, 100, 200), 128  # digits of an operand, and pairs of each number of digits
_DRAWN = 12  # digits of the operands whose memory is drawn


def name(run: Run) -> str:
    """The kind of model, with its cell or its attention."""
    model = run.config.model
    if model.kind == "seq2seq":
        return f"{model.encoder.upper()}, {model_name(run)}"
    return f"{model.kind} {model.cell}, {model.width} x {model.units}"


def arithmetic(output: Output, runs: list[Run]) -> None:
    """Results that are wholly right, for operands as long as in training and longer; a memory as it works."""
    rows = []
    for run in runs:
        trained = load([run.folder], ["decoding.beam_size=1"], 1)  # the last weights: the best ones are the first right
        right = {digits: _right(trained, digits) for digits in _DIGITS}
        rows.append(
            {
                "task": task_name(run),
                "model": name(run),
                "seed": run.config.training.seed,
                "updates": run.validations[-1]["step"],
                "valid, exact match %": f"{run.result['exact_match']:.1f}",
                **{f"{digits} digits": f"{share:.0f}%" for digits, share in right.items()},
                "training s": f"{float(run.validations[-1]['seconds']):.0f}",
            }
        )
    output.table(rows, "Results that are wholly right, in percent, by the digits of an operand")
    drawn = next((run for run in runs if run.config.model.kind == "neural_gpu"), None)
    if drawn is not None:
        _draw(output, drawn)


def _right(trained, digits: int) -> float:
    return evaluation.evaluate(trained, of_length(trained, digits, _SUMS), repeats=1).result["exact_match"]


def _draw(output: Output, run: Run) -> None:
    """Six maps of a memory at each step: those that change most."""
    trained = load([run.folder], [], 1)
    pair = of_length(trained, _DRAWN, 1)
    source = pair.source[0]
    memory = trained.models[0].unrolled(trained.models[0].encode(np.array([source], np.int32)))[:, 0].numpy()
    tokens = [trained.vocabulary.tokens[token] for token in source]
    maps = memory[:, :, 0]  # [steps, n, m], of the first column
    moving = np.abs(np.diff(maps, axis=0)).mean((0, 1)).argsort()[::-1][:6]
    title = f"{task_name(run)}: six maps of the memory, step by step{output.label}"
    output.pictures("memory", lambda path: plots.memory(path, tokens, maps[:, :, moving], title))


def translation(output: Output, runs: list[Run]) -> None:
    """Perplexity and BLEU of active memory and of attention; BLEU by the length of the source."""
    rows, curves = [], {}
    for run in runs:
        lengths = by_length([run])
        parameters = {"parameters": f"{run.result['parameters']:,}"}
        rows.append(
            {
                "model": name(run),
                **parameters,
                "updates": run.validations[-1]["step"],
                "training minutes": f"{float(run.validations[-1]['seconds']) / 60:.0f}",
                "perplexity": f"{run.result['perplexity']:.2f}",
                "test BLEU": f"{run.result['bleu']:.2f}",
                **{f"BLEU, {own} tokens": f"{bleu:.2f}" for (own, _), bleu in lengths.items()},
            }
        )
        curves[name(run)] = {int(own.partition("-")[2]): bleu for (own, _), bleu in lengths.items()}
    output.table(rows, "Multi30k English to German: active memory and attention")
    titles = {"title": f"BLEU by the length of the source{output.label}", "x": "tokens, at most", "y": "BLEU"}
    output.pictures("bleu_by_length", lambda path: benchmark_plots.times(path, curves, **titles, scale="linear"))
