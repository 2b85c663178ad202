"""Lists the runs of targets with their costs, or times a few of their training steps at full size."""

import os
import re
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from memattn.config import Config, DataConfig
from memattn.data import corpus
from memattn.data.tasks import TASKS
from memattn.data.vocabulary import SPECIAL_TOKENS
from memattn.errors import RunError
from memattn.evaluation import formatting
from memattn.files import read_text
from memattn.models.interface import Model
from memattn.runs.trained import build_model
from memattn.training.distribution import STRATEGIES
from memattn.training.step import TrainingStep
from studies.runner import runs_of


def listing(names: list[str], scale: str) -> str:
    """Returns the runs of targets as a Markdown table, and what the head of each config says of its cost."""
    wanted = runs_of(names, scale)
    rows = [
        {"config": path, "run": name, "training steps": f"{config.training.max_steps:,}"}
        for path, runs in wanted.items()
        for name, config in runs.items()
    ]
    if not rows:
        return f"{', '.join(names)}: nothing is trained"
    costs = [f"- all of {path}: {re.findall('^# Cost: (.*)', read_text(path), re.MULTILINE)[0]}" for path in wanted]
    total = f"{len(rows)} runs, many of which end before their last step."
    return "\n".join([formatting.markdown(rows), total, *costs])


def rehearse(names: list[str], scale: str, *, steps: int, strategy: str) -> str:
    """Times `steps` training steps of the costliest run of each config, on full batches of the longest sentences.

    Of the runs with the longest sources, that is the one with the most parameters. Token ids and vectors are random.
    Returns a Markdown table. Raises RunError if the loss is not finite.
    """
    rows = []
    for path, runs in runs_of(names, scale).items():
        name, text = _costliest(runs)
        config, training = runs[name], runs[name].training
        longest = f"{text.source_length:,} {'vectors' if text.source_features else 'tokens'}"
        print(f"{path}: {name}, {longest}", flush=True)
        devices = STRATEGIES[strategy]()
        with devices.scope():
            model = _model(config, text)
            step = TrainingStep(model, training, devices)
        random, seconds, sentences = np.random.default_rng(0), [], training.batch_size
        if training.batch_type == "tokens":
            sentences = max(1, sentences // max(text.source_length, text.target_length))
        for number in range(steps):
            batches = [_random_pairs(random, text, sentences) for _ in range(training.accumulate)]
            started = time.perf_counter()
            loss = float(step(batches, number, training.learning_rate)[0])
            seconds.append(time.perf_counter() - started)
            if not np.isfinite(loss):
                raise RunError(f"{path}: the loss of {name} is {loss} after {number + 1} steps")
        rows.append(
            {
                "config": path,
                "run": name,
                "parameters": f"{model.count_params():,}",
                "batch": sentences,
                "longest source": longest,
                "first step s": f"{seconds[0]:.3g}",
                "step s": f"{min(seconds[1:]):.3g}" if seconds[1:] else "",
            }
        )
        tf.keras.backend.clear_session()
    if not rows:
        return f"{', '.join(names)}: nothing is trained"
    return f"{formatting.markdown(rows)}\nThe first step includes tracing and compiling; most sentences are shorter.\n"


class _Text(NamedTuple):
    """Sizes of training data.

    Attributes:
      vocabulary: number of ids.
      source_length, target_length: greatest lengths, ends of sentences included.
      source_features: width of the vectors that are sources; None where these are token ids.
    """

    vocabulary: int
    source_length: int
    target_length: int
    source_features: int | None = None


# Assumed sizes of a corpus that is not prepared, by `data.source`. Features are of speech, 100 vectors a second.
_UNPREPARED = {
    "tokens": _Text(len(SPECIAL_TOKENS) + 16_000, 100, 100),
    "features": _Text(len(SPECIAL_TOKENS) + 30, 500, 80, source_features=80),
}


def _costliest(runs: dict[str, Config]) -> tuple[str, _Text]:
    """Returns the name of the costliest run, and the sizes of its training data."""
    texts = {name: _text(config.data) for name, config in runs.items()}
    longest = max(text.source_length for text in texts.values())
    parameters = {
        name: _model(runs[name], text).count_params() for name, text in texts.items() if text.source_length == longest
    }
    name = max(parameters, key=lambda name: parameters[name])
    return name, texts[name]


def _model(config: Config, text: _Text) -> Model:
    features = {} if text.source_features is None else {"source_features": text.source_features}
    return build_model(config, text.vocabulary, {"max_source_length": text.source_length, **features})


def _random_pairs(random: np.random.Generator, text: _Text, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns sources and targets of a batch of `rows` pairs, all of the greatest length."""
    source, target = (
        random.integers(len(SPECIAL_TOKENS), text.vocabulary, (rows, length), dtype=np.int32)
        for length in (text.source_length, text.target_length)
    )
    if text.source_features:
        source = random.normal(size=(rows, text.source_length, text.source_features)).astype(np.float32)
    return source, target


def _text(data: DataConfig) -> _Text:
    """Measures a prepared corpus or a task; the sizes of an unprepared corpus are assumed."""
    if (task := data.generated) is not None:
        random = np.random.RandomState(task.seed)  # noqa: NPY002
        pairs = TASKS[task.name].pairs(task, random, np.arange(task.max_length + 1))  # each length once
        source, target = (1 + max(map(len, part)) for part in zip(*pairs, strict=True))
        return _Text(len(SPECIAL_TOKENS) + len(TASKS[task.name].tokens(task)), source, target)
    if os.path.isdir(data.path):
        vocabulary = corpus.read_vocabulary(data.path)
        prepared = corpus.read_corpus(data.path, "train", vocabulary, data.source)
        source, target = (int(part.lengths().max()) for part in (prepared.source, prepared.target))
        text = _Text(len(vocabulary), source, target, prepared.source.metadata().get("source_features"))
    else:
        text = _UNPREPARED[data.source]
    return text._replace(
        source_length=min(text.source_length, data.max_source_length or text.source_length),
        target_length=min(text.target_length, data.max_target_length or text.target_length),
    )
