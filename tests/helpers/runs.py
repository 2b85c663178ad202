"""Runs of a tiny config: strategies to train them, their evaluation, and whether two runs are equal."""

import contextlib
import ctypes
import dataclasses
import gc
import os
import signal

import numpy as np
import tensorflow as tf

import memattn
from helpers.equations import randomize
from memattn import config as configs
from memattn import files
from memattn.runs.result import Result
from memattn.runs.run import Run
from memattn.serving.translator import from_trained
from memattn.training.step import TrainingStep
from memattn.training.trainer import Trainer

TINY = {
    "data": {"copy": {"max_length": 5, "num_symbols": 4, "train_examples": 60, "valid_examples": 12}, "num_buckets": 1},
    "model": {
        "layers": 1,
        "units": 8,
        "embedding_size": 8,
        "dropout": 0.1,
        "attention": {"name": "memory", "num_slots": 3},
    },
    "training": {
        "batch_size": 8,
        "learning_rate": 0.01,
        "max_steps": 6,
        "log_every": 2,
        "validate_every": 3,
        "checkpoint_every": 2,
        "jit_compile": False,
    },
    "decoding": {"beam_size": 2, "batch_size": 4, "jit_compile": False},
}
NO_STRATEGY = tf.distribute.get_strategy()


def replicas(number):
    """A strategy of `number` CPU devices.

    Its keys for collective operations differ from those of all earlier strategies, as in TensorFlow's tests.
    """
    tf.distribute.MirroredStrategy._collective_key_base += 100_000
    return tf.distribute.MirroredStrategy([f"CPU:{device}" for device in range(number)])


def tiny(changes):
    """Returns the config TINY with other values of some keys, such as {"model.units": 16}."""
    return configs.from_dict(configs.apply_changes(TINY, changes))


def free():
    """Returns the memory of unused models to the system: their graphs are cycles, and malloc keeps freed memory."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # only glibc has malloc_trim
        ctypes.CDLL(None).malloc_trim(0)


def untrained(config, run_dir):
    """Makes a run that was not trained, whose best checkpoint has random weights; returns its folder."""
    run = Trainer(config, str(run_dir), NO_STRATEGY).run
    randomize(run.model.weights)
    run.best.save(1)
    return str(run_dir)


def evaluate(run_dir, *overrides, split="valid", plots=0, output_dir=None):
    """Evaluates a split with a run's best checkpoint; returns the content of result.json."""
    return memattn.evaluate_model(run_dir, split, overrides, num_plots=plots, output_dir=output_dir).to_json()


def translator(trained, **options):
    """A translator of a trained run, which gives one translation per line unless options ask for more."""
    return from_trained(trained, **{"n_best": 1, **options})


def made_up_result(config, **changes):
    """A result of a config, with made-up figures; every field that is not listed here is empty or zero."""
    figures = {
        "scores": {"bleu": 50.25, "exact_match": 25.0},
        "signatures": {},
        "decode_seconds": 1.5,
        "decode_seconds_min": 1.25,
        "decode_seconds_max": 2.0,
        "sentences": 12,
        "parameters": 99,
        "step": 4,
        "split": "valid",
        "checkpoints": ["run/best/step-4"],
        "config": configs.to_dict(config),
    }
    unset = {"int": 0, "float": 0.0, "str": "", "bool": False, "str | None": None}
    fields = {field.name: getattr(field.type, "__name__", str(field.type)) for field in dataclasses.fields(Result)}
    empty = {name: unset[kind] for name, kind in fields.items() if kind in unset}
    return Result(**{**empty, **figures, **changes})


def weights(run_dir):
    """Every tensor of a run's newest checkpoint."""
    reader = tf.train.load_checkpoint(Run(run_dir).checkpoints)
    return {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}


def assert_close_weights(first_run, second_run, rtol=1e-3, atol=1e-4):
    """The models of the newest checkpoints of two run folders have close weights."""
    first, second = weights(first_run), weights(second_run)
    assert first.keys() == second.keys()
    for name in (name for name in first if name.startswith("model")):
        np.testing.assert_allclose(first[name], second[name], rtol=rtol, atol=atol, err_msg=name)


def assert_same_run(first_run, second_run):
    """Weights, states and validations of two run folders are equal to the last bit; only times may differ."""
    left, right = weights(first_run), weights(second_run)
    assert left.keys() == right.keys()
    numeric = [name for name in left if not name.startswith(("progress", "save_counter", "_CHECKPOINTABLE"))]
    assert len(numeric) > 15
    for name in numeric:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)
    scores = []
    for run_dir in (first_run, second_run):
        scores.append([{**row, "seconds": None} for row in files.read_csv(os.path.join(run_dir, "validation.csv"))])
    assert scores[0] == scores[1]
    best = [tf.train.latest_checkpoint(Run(run_dir).best) for run_dir in (first_run, second_run)]
    assert os.path.basename(best[0]) == os.path.basename(best[1])


def latest(run_dir):
    """The path of a run's newest checkpoint; None before the first, and while the list of them is being written."""
    try:
        return tf.train.latest_checkpoint(Run(run_dir).checkpoints)
    except (tf.errors.OpError, ValueError):
        return None


def before_each_step(monkeypatch, act):
    """Calls act(training_step, number, learning_rate) before each training step; numbers count from 0."""
    call = TrainingStep.__call__

    def act_then_step(self, batches, number, learning_rate):
        act(self, number, learning_rate)
        return call(self, batches, number, learning_rate)

    monkeypatch.setattr(TrainingStep, "__call__", act_then_step)


def stopping_after(save, step):
    """Returns Trainer.save with an addition: once this step is saved, training stops as on a signal."""

    def save_and_stop(trainer):
        save(trainer)
        if trainer.run.progress.step == step:
            trainer.stopping.on_signal(signal.SIGTERM, None)

    return save_and_stop
