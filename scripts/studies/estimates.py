"""Estimates the cost of making tables and figures, or times a few training steps at full size."""

import functools
import json
import math
import os
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from memattn import config as configs
from memattn.config import Config, DataConfig, NeuralGPUConfig
from memattn.data import corpus
from memattn.data.tasks import TASKS
from memattn.data.vocabulary import SPECIAL_TOKENS
from memattn.errors import RunError
from memattn.evaluation import formatting
from memattn.runs.trained import build_model
from memattn.training.distribution import STRATEGIES
from memattn.training.step import TrainingStep
from studies.runner import runs_of


def estimate(names: list[str], scale: str, *, gigaflops: float | None) -> str:
    """Returns the runs of targets as a Markdown table, with their sizes and estimates of their time.

    `gigaflops` is the rate of matrix products (2 per multiply-add); by default, it is measured on this machine.
    """
    rate = gigaflops * 5e8 if gigaflops else _multiply_adds_per_second(1280, 512, 1024)
    rows, total = [], 0.0
    for path, runs in runs_of(names, scale).items():
        for name, config in tqdm(runs.items(), desc=path, unit="run", disable=None):
            seconds = config.training.max_steps * _multiply_adds(config) / rate
            rows.append(
                {
                    "config": path,
                    "run": name,
                    "parameters": f"{_weights(config)[0]:,}",
                    "steps": f"{config.training.max_steps:,}",
                    "time": formatting.clock(seconds),
                }
            )
            total += seconds
    if not rows:
        return f"{', '.join(names)}: nothing is trained"
    return (
        f"{formatting.markdown(rows)}\n"
        f"{len(rows)} runs; {formatting.clock(total)} for all of these steps at {rate / 5e8:,.0f} GFLOP/s, though many "
        "runs end earlier. A time counts the products with weights alone, without padding and attention. Unprepared "
        "text is assumed to have 16,000 BPE units and sentences of 30, unprepared speech 30 characters and utterances "
        "of 2.5 s. --rehearse measures training steps.\n"
    )


def rehearse(names: list[str], scale: str, *, steps: int, strategy: str) -> str:
    """Times `steps` training steps of the costliest run of each config, on full batches of the longest sentences.

    Token ids and vectors are random. Returns a Markdown table. Raises RunError if the loss is not finite.
    """
    rows = []
    for path, runs in runs_of(names, scale).items():
        name, config = max(runs.items(), key=lambda item: _multiply_adds(item[1]))
        text = _text(config.data)
        longest = f"{text.longest:,} {'vectors' if text.source_features else 'tokens'}"
        print(f"{path}: {name}, {longest}", flush=True)
        devices = STRATEGIES[strategy]()
        with devices.scope():
            model = build_model(config, text.vocabulary, _metadata(text.longest, text.source_features))
            step = TrainingStep(model, config.training, devices)
        random, training, seconds = np.random.default_rng(0), config.training, []
        sentences = training.batch_size
        if training.batch_type == "tokens":
            sentences = max(1, sentences // max(text.longest, text.longest_target))
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


def vocabulary_size(config: Config) -> int:
    """Returns the number of ids of a config's corpus, or an estimate if it is not prepared."""
    return _text(config.data).vocabulary


class _Text(NamedTuple):
    """Sizes of training data.

    Attributes:
      vocabulary: number of ids.
      source_length, target_length: mean lengths, ends of sentences included.
      longest: greatest length of a source.
      longest_target: greatest length of a target.
      source_features: width of the vectors that are sources; None where these are token ids.
    """

    vocabulary: int
    source_length: float
    target_length: float
    longest: int
    longest_target: int
    source_features: int | None = None


# Assumed sizes of a corpus that is not prepared, by `data.source`. Features are of speech, 100 vectors a second.
_UNPREPARED = {
    "tokens": _Text(len(SPECIAL_TOKENS) + 16_000, 31, 31, 100, 100),
    "features": _Text(len(SPECIAL_TOKENS) + 30, 250, 40, 500, 80, source_features=80),
}


def _random_pairs(random: np.random.Generator, text: _Text, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns sources and targets of a batch of `rows` pairs, all of the greatest length."""
    source, target = (
        random.integers(len(SPECIAL_TOKENS), text.vocabulary, (rows, length), dtype=np.int32)
        for length in (text.longest, text.longest_target)
    )
    if text.source_features:
        source = random.normal(size=(rows, text.longest, text.source_features)).astype(np.float32)
    return source, target


@functools.cache
def _text(data: DataConfig) -> _Text:
    """Measures a prepared corpus or a task; the sizes of an unprepared corpus are assumed."""
    if (task := data.generated) is not None:
        random = np.random.RandomState(task.seed)  # noqa: NPY002
        pairs = TASKS[task.name].pairs(task, random, np.arange(task.max_length + 1))  # each length once
        source, target = (1 + np.array(list(map(len, part))) for part in zip(*pairs, strict=True))
        vocabulary_size = len(SPECIAL_TOKENS) + len(TASKS[task.name].tokens(task))
        return _Text(vocabulary_size, source.mean(), target.mean(), int(source.max()), int(target.max()))
    if not os.path.isdir(data.path):
        text = _UNPREPARED[data.source]
        longest = data.max_source_length or text.longest
        longest_target = data.max_target_length or (text.longest_target if text.source_features else longest)
        return text._replace(longest=longest, longest_target=longest_target)
    vocabulary = corpus.read_vocabulary(os.path.join(data.path, corpus.VOCABULARY))
    prepared = corpus.read_corpus(data.path, "train", vocabulary, data.source)
    source, target = prepared.source.lengths(), prepared.target.lengths()
    longest = int(min(source.max(), data.max_source_length or np.inf))
    longest_target = int(min(target.max(), data.max_target_length or np.inf))
    features = prepared.source.metadata().get("source_features")
    return _Text(len(vocabulary), source.mean(), target.mean(), longest, longest_target, features)


def _weights(config: Config) -> tuple[int, int]:
    """Returns numbers of a model's weights: of all, and of those in products, which are all but the embeddings."""
    text = _text(config.data)
    return _weights_of_model(json.dumps(configs.to_dict(config)["model"]), text.vocabulary, text.source_features)


@functools.cache
def _weights_of_model(model: str, vocabulary: int, source_features: int | None) -> tuple[int, int]:
    """Returns `_weights` of a model, whose section of a config is given as JSON."""
    config = configs.from_dict({"data": {"copy": {}}, "model": json.loads(model)})
    built = build_model(config, vocabulary, _metadata(100, source_features))
    embeddings = [math.prod(weight.shape) for weight in built.weights if weight.shape[:1] == (vocabulary,)]
    return built.count_params(), built.count_params() - sum(embeddings)


def _metadata(longest: int, source_features: int | None) -> dict[str, int]:
    """Returns the metadata of training data, as `build_model` takes it."""
    features = {} if source_features is None else {"source_features": source_features}
    return {"max_source_length": longest, **features}


def _multiply_adds(config: Config) -> float:
    """Estimates the multiply-adds of a training step: each weight once a token, and twice as much for the gradients.

    A Neural GPU applies each weight in as many steps as there are tokens, to all positions.
    """
    text, model = _text(config.data), config.model
    longer = max(text.source_length, text.target_length)
    sentences: float = config.training.batch_size
    if config.training.batch_type == "tokens":
        sentences /= longer
    uses = (text.source_length + text.target_length) / 2
    if isinstance(model, NeuralGPUConfig):
        uses = longer**2 * model.width
    return 3 * config.training.accumulate * sentences * uses * _weights(config)[1]


def _multiply_adds_per_second(rows: int, inner: int, columns: int) -> float:
    """Measures the best rate of [rows, inner] @ [inner, columns] in float32.

    Batches of 20 products are timed for a second; the fastest batch counts.
    """
    lefts, right = tf.random.normal([20, rows, inner]), tf.random.normal([inner, columns])
    products = tf.function(
        lambda: tf.add_n([tf.reduce_max(tf.matmul(left, right)) for left in tf.unstack(lefts)]), autograph=False
    )
    products()
    best, end = float("inf"), time.perf_counter() + 1.0
    while time.perf_counter() < end:
        start = time.perf_counter()
        products().numpy()
        best = min(best, time.perf_counter() - start)
    return 20 * rows * inner * columns / best
