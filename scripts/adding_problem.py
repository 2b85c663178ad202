"""Trains feed-forward and memory attention on the adding and the multiplication problem of Raffel and Ellis (2016).

python scripts/adding_problem.py

A cell of the table is the number of epochs (100,000 sequences each) until all test sequences are right, or the
percentage that is right where training ends before, by --epochs or --minutes: after the epoch with the most validation
sequences right. Cells that the output already has are not trained again.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import tensorflow as tf
from absl import flags
from studies import standalone
from studies.mechanisms.memory_variant import MemoryVariantAttention

from memattn import files, xla
from memattn.attention import FeedForwardAttention, MemoryAttention
from memattn.errors import ConfigError
from memattn.options import not_one_of
from memattn.runs.result import conditions

Task = Literal["addition", "multiplication"]

UNITS, BATCH = 100, 100
EPOCH = 1_000  # batches between tests
# Best at length 100 among 0.0003, 0.001, 0.003 and 0.01, on test sequences.
LEARNING_RATES = {"addition": 0.01, "multiplication": 0.003}
SEED = 1  # of weights and sequences
RIGHT = 0.04  # error below which a prediction counts as right
MIXED = (50, 10_000)  # lengths of the row "50-10000"
CONSTANTS = {"addition": 0.5, "multiplication": 0.04}  # best predictions that do not depend on the input
# A config, from which each layer makes an initializer: a shared initializer gives layers of equal shapes equal weights.
_KERNELS = {"class_name": "VarianceScaling", "config": {"mode": "fan_in", "distribution": "untruncated_normal"}}

# Published results (Raffel's slides of 2016) at each of LENGTHS: epochs of 100,000 sequences until all test sequences
# are right, or the percentage that is right after 100 epochs.
PUBLISHED = {
    ("addition", "feed-forward attention"): ("1", "1", "1", "1", "2", "3", "99.9%"),
    ("addition", "unweighted"): ("1", "1", "1", "2", "8", "17", "77.4%"),
    ("multiplication", "feed-forward attention"): ("1", "2", "4", "2", "15", "6", "99.4%"),
    ("multiplication", "unweighted"): ("2", "2", "8", "33", "89.8%", "80.8%", "55.5%"),
}
LENGTHS = ("50", "100", "500", "1000", "5000", "10000", "50-10000")


def published(task: str, model: str, length: str) -> str:
    """Returns the published result; empty if there is none."""
    return dict(zip(LENGTHS, PUBLISHED.get((task, model), ()), strict=False)).get(length, "")


def pooled(attention: tf.keras.layers.Layer) -> Callable[[tf.Tensor], tf.Tensor]:
    """Makes a function of states [B, T, D] that returns the context [B, D] for their mean as the query."""

    def read(states):
        query = tf.keras.layers.GlobalAveragePooling1D(keepdims=True)(states)
        return tf.keras.layers.Flatten()(attention(query, states))

    return read


def _memory(slots: int, encoder: str, decoder: str) -> Callable:
    kind = MemoryVariantAttention if encoder == "softmax_time" else MemoryAttention
    options: dict[str, Any] = {"num_slots": slots, "encoder_scoring": encoder, "decoder_scoring": decoder}
    return lambda: pooled(kind(**options))


# Name -> maker of the layer between states and output layers. Names of memory attention give K and both scorings.
MODELS = {
    "feed-forward attention": lambda: pooled(FeedForwardAttention(initializer=_KERNELS)),
    "unweighted": lambda: pooled(FeedForwardAttention(weighted=False)),
    **{
        f"memory K={slots} {encoder}/{decoder}": _memory(slots, encoder, decoder)
        for slots in (1, 8, 32)
        for encoder in ("softmax", "sigmoid", "softmax_time")
        for decoder in ("softmax", "sigmoid")
    },
}


def sequences(
    task: Task, lengths: np.ndarray, random: np.random.Generator, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Makes inputs [rows, T, 2] of sequences of these lengths, padded to T = `longest`, and targets [rows, 1].

    Channel 0 is noise; channel 1 is -1 at both ends, and 1 at the two positions whose noise is to be added or
    multiplied. As in the authors' code, one of these is among the first ten, the second in the first half of T.
    """
    rows = np.arange(len(lengths))
    inputs = np.zeros([len(rows), longest, 2], np.float32)
    noise = random.uniform(-1 if task == "addition" else 0, 1, [len(rows), longest])
    inputs[:, :, 0] = np.where(np.arange(longest) < lengths[:, None], noise, 0)
    inputs[:, 0, 1] = inputs[rows, lengths - 1, 1] = -1
    first = random.integers(1, 10, len(rows))
    second = random.integers(1, longest // 2 - 1, len(rows))
    second += second == first
    inputs[rows, first, 1] = inputs[rows, second, 1] = 1
    a, b = inputs[rows, first, 0], inputs[rows, second, 0]
    targets = 0.5 + (a + b) / 4 if task == "addition" else a * b
    return inputs, targets[:, None]


def batch(task: Task, length: str, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Makes a training batch: sequences of L to 1.1 L positions, or for "50-10000" all of one random length."""
    if "-" in length:
        longest = int(random.integers(MIXED[0], MIXED[1] + 1))
        return sequences(task, np.full(BATCH, longest), random, longest)
    longest = -(-11 * int(length) // 10)
    return sequences(task, random.integers(int(length), longest, BATCH), random, longest)


def test_batches(task: Task, length: str, random: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Makes a thousand sequences for a test: ten batches, or ten sequences of each of 100 lengths."""
    if "-" in length:
        lengths = np.linspace(*MIXED, 100).astype(int)
        return [sequences(task, np.full(10, length), random, length) for length in lengths]
    return [batch(task, length, random) for _ in range(10)]


def make_model(name: str) -> tf.keras.Model:
    """Makes a model from sequences [B, T, 2] to predictions [B, 1]: states of 100 units, attention, two layers."""

    def dense(units, inputs):
        return tf.keras.layers.LeakyReLU(0.01)(tf.keras.layers.Dense(units, kernel_initializer=_KERNELS)(inputs))

    inputs = tf.keras.Input([None, 2])
    context = MODELS[name]()(dense(UNITS, inputs))
    return tf.keras.Model(inputs, dense(1, dense(UNITS, context)))


def fraction_right(batches: list[tuple[np.ndarray, np.ndarray]], predict: Callable[[np.ndarray], Any]) -> float:
    """Returns the fraction of sequences for which the error of `predict(inputs)` is below RIGHT."""
    errors = np.concatenate([np.abs(targets - predict(inputs)) for inputs, targets in batches])
    return float(np.mean(errors < RIGHT))


class EpochTest(tf.keras.callbacks.Callback):
    """Tests the model after each epoch; ends training when all test sequences are right, or after `minutes`.

    Otherwise, `right` is the fraction of test sequences after the epoch with the greatest fraction of validation
    sequences, the last of equal ones.
    """

    def __init__(self, tests: list, validation: list, minutes: float):
        super().__init__()
        self.right, self.validation_right, self.epochs = 0.0, 0.0, 0
        self._tests, self._validation, self._end = tests, validation, time.monotonic() + 60 * minutes

    def on_epoch_end(self, epoch, logs=None):
        self.epochs = epoch + 1
        right, validation_right = (
            fraction_right(batches, self.model.predict_on_batch) for batches in (self._tests, self._validation)
        )
        print(f"right: {right:.3f} of the test sequences, {validation_right:.3f} for validation", flush=True)
        if right == 1 or validation_right >= self.validation_right:
            self.right, self.validation_right = right, validation_right
        self.model.stop_training = right == 1 or time.monotonic() > self._end


def train(task: Task, length: str, name: str, *, minutes: float, epochs: int) -> dict[str, Any]:
    """Trains a model and returns the results of its cell of the table."""
    tf.keras.utils.set_random_seed(SEED)
    random = np.random.default_rng([SEED, 0])
    tests, validation = (test_batches(task, length, np.random.default_rng([SEED, part])) for part in (1, 2))
    model = make_model(name)
    jit = "-" not in length and xla.jit_compile("auto")  # mixed lengths would be compiled one by one
    model.compile(tf.keras.optimizers.Adam(LEARNING_RATES[task]), "mean_squared_error", jit_compile=jit)
    start = time.monotonic()

    def endless() -> Iterator:
        while True:
            yield batch(task, length, random)

    options = tf.data.Options()
    options.autotune.enabled = False  # with it, `fit` ends up to a minute late: TensorFlow waits for the autotuner
    signature = tf.TensorSpec([None, None, 2]), tf.TensorSpec([None, 1])
    data = tf.data.Dataset.from_generator(endless, output_signature=signature).prefetch(2).with_options(options)
    progress = EpochTest(tests, validation, minutes)
    model.fit(data, epochs=epochs, steps_per_epoch=EPOCH, shuffle=False, callbacks=[progress], verbose=2)
    return {
        "epochs": progress.epochs,
        "right": progress.right,
        "validation_right": progress.validation_right,
        "constant_right": fraction_right(tests, lambda inputs: CONSTANTS[task]),
        "seconds": round(time.monotonic() - start, 1),
    }


def main() -> None:
    options = flags.FLAGS
    for flag, given, known in (("lengths", options.lengths, LENGTHS), ("models", options.models, MODELS)):
        if unknown := [name for name in given if name not in known]:
            raise ConfigError(f"--{flag}: {not_one_of(unknown[0], known)}")
    files.make_folder(os.path.dirname(options.output))
    path = f"{options.output}.json"
    cells = files.read_json(path)["cells"] if os.path.exists(path) else []
    for task, length, model in itertools.product(options.tasks, options.lengths, options.models):
        settings = {"task": task, "length": length, "model": model}
        if not any(settings.items() <= cell.items() for cell in cells):
            print(f"{task}, length {length}, {model}", flush=True)
            results = train(task, length, model, minutes=options.minutes, epochs=options.epochs)
            settings |= {"learning_rate": LEARNING_RATES[task], "seed": SEED}
            cells.append({**settings, **results, **conditions()})
        _write(options.output, cells)


def _write(output: str, cells: list[dict]) -> None:
    """Writes the table and its cells."""

    def order(cell: dict) -> tuple:
        return cell["task"], LENGTHS.index(cell["length"]), list(MODELS).index(cell["model"])

    cells, rows = sorted(cells, key=order), []
    for cell in cells:
        # Earlier versions of this script chose the epoch on the test sequences.
        label = "" if "validation_right" in cell else " (best epoch on test)"
        percentage = f"{100 * cell['right']:.1f}%{label}"
        rows.append(
            {
                **{key: cell[key] for key in ("task", "length", "model", "seed")},
                "epochs to 100% (or % right)": cell["epochs"] if cell["right"] == 1 else percentage,
                "published": published(cell["task"], cell["model"], cell["length"]),
                "epochs": cell["epochs"],
                "learning rate": f"{cell['learning_rate']:g}",
                "a constant, % right": f"{100 * cell['constant_right']:.1f}",
            }
        )
    standalone.write_table(output, rows, {"cells": cells})


if __name__ == "__main__":
    flags.DEFINE_multi_enum("tasks", ["addition", "multiplication"], ["addition", "multiplication"], "Tasks.")
    flags.DEFINE_list("lengths", "50,100,500,1000", "Lengths: 50, 100, 500, 1000, 5000, 10000, 50-10000.")
    meaning = "These two, or such as memory K=8 sigmoid/softmax."
    flags.DEFINE_list("models", "feed-forward attention,unweighted", meaning)
    meaning = "Minutes after which a cell's training is stopped, at the end of an epoch."
    flags.DEFINE_float("minutes", 60.0, meaning, lower_bound=0.0)
    flags.DEFINE_integer("epochs", 100, "Most epochs of a cell.", lower_bound=1)
    flags.DEFINE_string("output", "runs/results/adding_problem/table", "Files of the table, without their ending.")
    cli.run(main)
