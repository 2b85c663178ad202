"""A result as one page: what the model is, how it was trained, what it scores, how to use it."""

import os
import shlex
from typing import Any

import yaml

from memattn.evaluation.metrics import METRICS
from memattn.evaluation.result import Result
from memattn.runs.run_folder import BEST

FILE = "model_card.md"
_PAPERS = {  # by whether the model is one of active memory
    False: (
        "sequence-to-sequence model",
        "Efficient Attention using a Fixed-Size Memory Representation* (Britz, Guan & Luong, 2017)",
    ),
    True: ("model of active memory", "Can Active Memory Replace Attention?* (Kaiser & Bengio, 2016)"),
}
_DECODERS = {"lstm": "LSTM", "rnnsearch": "RNNsearch"}
_NOT_EXPORTED = ("decoding.sample", "decoding.lexicon")  # an exported model searches by beam, over all tokens


def model_card(result: Result) -> str:
    """The page on a result, in Markdown."""
    config = result.config
    run_dirs = list(dict.fromkeys(os.path.dirname(os.path.dirname(path)) for path in result.checkpoints))
    averaged = len(result.checkpoints) // len(run_dirs)
    of_best = os.path.basename(os.path.dirname(result.checkpoints[0])) == BEST
    given = " ".join([f"--run_dir {run_dir}" for run_dir in run_dirs] + [f"--average {averaged}"] * (not of_best))
    search, exported = (
        " ".join([given, *(f"--set {shlex.quote(one)}" for one in result.overrides if not one.startswith(without))])
        for without in ((), _NOT_EXPORTED)
    )
    model, training, decoding = (config[section] for section in ("model", "training", "decoding"))
    active = model["kind"] != "seq2seq"
    if active and not decoding["memory_ratio"]:
        exported += " --set decoding.memory_ratio=1.2"
    weights = "best checkpoint" if of_best else f"average of {averaged}"
    beam = f"beam {decoding['beam_size']}"
    if sample := decoding["sample"]:
        beam = ", ".join(["sampled", *(f"{key} {value}" for key, value in sample.items() if value is not None)])
    facts = {
        **(_of_active_memory(model) if active else _of_attention(model)),
        "parameters": f"{result.parameters:,}",
        "training data": result.trained_on,
        "training": f"{result.step:,} updates ({weights}), batches of {training['batch_size']} "
        f"{training['batch_type']}, {training['optimizer']}, learning rate {training['learning_rate']:g}, "
        f"seed {training['seed']}",
    }
    if training["init_from"]:
        facts["trained on from"] = training["init_from"]
    if training["teacher"]:
        facts["teacher"] = f"{training['teacher']}, weight of its contexts {training['teacher_weight']:g}"
    scores = {}
    for name, metric in METRICS.items():
        if metric.is_shown and name in result.scores:
            signature = f" ({result.signatures[name]})" if name in result.signatures else ""
            scores[f"{metric.title}{signature}"] = metric.shown(result.scores[name])
    times = {
        "decode time": f"{result.decode_seconds:.3g} s ({result.time_range}; timed runs: {result.repeats})",
        "sentences a second": f"{result.sentences_per_second:,.1f}",
    }
    how = (
        f"{beam}, {decoding['n_best']} best, batches of {decoding['batch_size']}, length penalty "
        f"{decoding['length_penalty']:g}, {'XLA' if result.jit_compile else 'graph mode'}, {result.dtype}"
    )
    conditions = {
        "command": f"`{result.command}`",
        "hardware": f"{result.device}, {result.cores} cores",
        "versions": f"memattn {result.memattn} ({result.commit or 'no commit'}), TensorFlow "
        f"{result.tensorflow}, Keras {result.keras}, Python {result.python}",
        "checkpoints": ", ".join(result.checkpoints),
        "not in the decode time": result.excluded_from_time,
    }
    parts = [
        f"# {', '.join(run_dirs)}",
        f"A {_PAPERS[active][0]} trained by memattn, after *{_PAPERS[active][1]}.",
        _listed(facts),
        f"## {result.sentences:,} sentences of `{result.split}`",
        _listed({**scores, **times}),
        f"Search: {how}.",
        "## Use",
        f"```\nmemattn-translate {search} < source.txt > translations.txt\n"
        f"memattn-export {exported} --output exported    # a SavedModel, without memattn\n```",
        "## Conditions",
        _listed(conditions),
        "## Every setting",
        f"```yaml\n{yaml.safe_dump(config, sort_keys=False)}```",
    ]
    return "\n\n".join(parts) + "\n"


def _of_attention(model: dict[str, Any]) -> dict[str, str]:
    attention = dict(model["attention"])
    options = ", ".join(f"{key} {value}" for key, value in attention.items() if key != "name")
    layers = "1 layer" if model["layers"] == 1 else f"{model['layers']} layers"
    encoder_units = model["encoder_units"] or model["units"]
    return {
        "attention": f"{attention['name']} ({options})" if options else attention["name"],
        "encoder": f"{layers} of {encoder_units} {model['encoder'].upper()} units in each direction",
        "decoder": f"{layers} of {model['units']} {_DECODERS[model['decoder']]} units",
        "embeddings": f"{model['embedding_size']} wide",
    }


def _of_active_memory(model: dict[str, Any]) -> dict[str, str]:
    cells = f"{model['layers']} {'cell' if model['layers'] == 1 else 'cells'} of kind {model['cell']}"
    columns = f"{model['width']} {'column' if model['width'] == 1 else 'columns'} of {model['units']} maps"
    return {"active memory": f"{model['kind']}, {columns}, {cells}"}


def _listed(facts: dict[str, str]) -> str:
    return "\n".join(f"- **{key}**: {value}" for key, value in facts.items())
