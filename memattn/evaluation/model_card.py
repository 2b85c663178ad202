"""Writes a result as a page: what the model is, how it was trained, what it scores, how to use it."""

import shlex
from typing import Any

from memattn.evaluation.metrics import REPORTED
from memattn.plain_values import dump
from memattn.runs.result import Result
from memattn.runs.run import is_best, run_of

_SEQ2SEQ = (
    "A sequence-to-sequence model trained by memattn, after *Efficient Attention using a Fixed-Size Memory "
    "Representation* (Britz, Guan & Luong, 2017)."
)
_ACTIVE_MEMORY = (
    "A model of active memory trained by memattn, after *Can Active Memory Replace Attention?* (Kaiser & Bengio, 2016)."
)


def model_card(result: Result) -> str:
    """Returns the page on a result, in Markdown."""
    config = result.config
    run_dirs = list(dict.fromkeys(map(run_of, result.checkpoints)))
    parts = [
        f"# {', '.join(run_dirs)}",
        _SEQ2SEQ if config["model"]["kind"] == "seq2seq" else _ACTIVE_MEMORY,
        _bullets(_model(config["model"]) | _training(result, len(run_dirs))),
        f"## {result.sentences:,} sentences of `{result.split}`",
        _bullets(_scores_and_times(result)),
        f"Search: {search_in_words(result)}.",
        "## Use",
        _command(result, run_dirs),
        "## Conditions",
        _bullets(conditions_in_words(result) | {"command": f"`{result.command}`"}),
        "## Every setting",
        f"```yaml\n{dump(config)}```",
    ]
    return "\n\n".join(parts) + "\n"


def _model(model: dict[str, Any]) -> dict[str, str]:
    """Returns what the model section of a config says, in words."""
    if model["kind"] != "seq2seq":
        sizes = f"{model['width']} x {model['units']} maps, {model['layers']} x {model['cell']} cells"
        return {"active memory": f"{model['kind']}, {sizes}"}
    attention = model["attention"]
    options = ", ".join(f"{key} {value}" for key, value in attention.items() if key != "name")
    layers, units = model["encoder_layers"] or model["layers"], model["encoder_units"] or model["units"]
    encoder = f"{layers} x {units} {model['encoder']} units in each direction"
    if model["encoder"] == "cgru":
        encoder = f"active memory, {2 * units} maps, {layers} x cgru cells"
    reduction = f"; neighbours joined by {model['encoder_reduce']}" if model["encoder_reduce"] else ""
    return {
        "attention": f"{attention['name']} ({options})" if options else attention["name"],
        "encoder": encoder + reduction,
        "decoder": f"{model['layers']} x {model['units']} {model['decoder']} units",
        "embeddings": f"{model['embedding_size']} wide",
    }


def _training(result: Result, num_runs: int) -> dict[str, str]:
    """Returns how the weights came about, in words."""
    training = result.config["training"]
    averaged = len(result.checkpoints) // num_runs
    weights = "best checkpoint" if is_best(result.checkpoints[0]) else f"average of {averaged}"
    entries = {
        "parameters": f"{result.parameters:,}",
        "training data": result.trained_on,
        "training": f"{result.step:,} training steps ({weights}), batches of {training['batch_size']} "
        f"{training['batch_type']}, {training['optimizer']}, learning rate {training['learning_rate']:g}, "
        f"seed {training['seed']}",
    }
    if training["init_from"]:
        entries["fine-tuned from"] = training["init_from"]
    if training["teacher"]:
        entries["teacher"] = f"{training['teacher']}, weight of its contexts {training['teacher_weight']:g}"
    return entries


def _scores_and_times(result: Result) -> dict[str, str]:
    scores = {}
    for name, metric in REPORTED.items():
        if name in result.scores:
            signature = f" ({result.signatures[name]})" if name in result.signatures else ""
            scores[f"{metric.title}{signature}"] = metric.with_unit(result.scores[name])
    return {
        **scores,
        "decode time": f"{result.decode_seconds:.3g} s ({result.time_range}; timed runs: {result.repeats})",
        "sentences a second": f"{result.sentences_per_second:,.1f}",
    }


def search_in_words(result: Result) -> str:
    """Returns beam size, length penalty and other settings of the search of a result, as text."""
    decoding = result.config["decoding"]
    method = f"beam {decoding['beam_size']}"
    if sample := decoding["sample"]:
        method = ", ".join(["sampled", *(f"{key} {value}" for key, value in sample.items() if value is not None)])
    return (
        f"{method}, {decoding['n_best']} best, batches of {decoding['batch_size']}, length penalty "
        f"{decoding['length_penalty']:g}, {'XLA' if result.jit_compile else 'graph mode'}, {result.dtype}"
    )


def _command(result: Result, run_dirs: list[str]) -> str:
    """Returns the command that decodes with the weights and the search of the result."""
    flags = [f"--run_dir {shlex.quote(run_dir)}" for run_dir in run_dirs]
    if not is_best(result.checkpoints[0]):
        flags.append(f"--average {len(result.checkpoints) // len(run_dirs)}")
    flags += [f"--set {shlex.quote(override)}" for override in result.overrides]
    if result.config["data"]["source"] != "tokens":
        flags += ["--output_dir RESULTS"] if len(run_dirs) > 1 else []
        return f"```\nmemattn-eval {' '.join(flags)} --set data.folder=FOLDER --split SPLIT\n```"
    return f"```\nmemattn-translate {' '.join(flags)} < source.txt > translations.txt\n```"


def conditions_in_words(result: Result) -> dict[str, str]:
    """Returns the conditions of an evaluation as text by name, such as "hardware"."""
    return {
        "command": result.command,
        "hardware": f"{result.device}, {result.cores} cores",
        "versions": f"memattn {result.memattn} ({result.commit or 'no commit'}), TensorFlow "
        f"{result.tensorflow}, Keras {result.keras}, Python {result.python}",
        "checkpoints": ", ".join(result.checkpoints),
        "not in the decode time": result.excluded_from_time,
    }


def _bullets(entries: dict[str, str]) -> str:
    return "\n".join(f"- **{key}**: {value}" for key, value in entries.items())
