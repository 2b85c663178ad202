"""Keras' optimizers by name, made to take gradients that are already summed over the replicas."""

import inspect
from typing import Any

import keras
import tensorflow as tf

from memattn import keras_parts
from memattn.config import TrainingConfig
from memattn.config.schema import Origin, did_you_mean, value_of
from memattn.errors import ConfigError, listed, reason

OPTIMIZERS = {  # by the names in training.optimizer: classes of tf.keras.optimizers
    "adam": "Adam",
    "adamw": "AdamW",
    "nadam": "Nadam",
    "adamax": "Adamax",
    "adagrad": "Adagrad",
    "adadelta": "Adadelta",
    "rmsprop": "RMSprop",
    "sgd": "SGD",
    "lion": "Lion",
}
_SUMMING_METHODS = ("_all_reduce_sum_gradients", "aggregate_gradients")  # names in Keras 3 and in Keras 2
# Arguments that `optimizer_options` cannot have: other keys of `training` set them, or the training loop ignores them.
_NO_OPTIONS = {
    *("learning_rate", "epsilon", "name", "kwargs", "jit_compile", "is_legacy_optimizer"),
    *("clipnorm", "clipvalue", "global_clipnorm", "loss_scale_factor", "gradient_accumulation_steps"),
    *("use_ema", "ema_momentum", "ema_overwrite_frequency"),
}


class _WithoutSum:
    """Mixin that keeps an optimizer from summing gradients over the replicas once more.

    `TrainingStep` sums them, since they must be summed before they are clipped.
    """

    def aggregate_gradients(self, grads_and_vars):
        return grads_and_vars

    _all_reduce_sum_gradients = aggregate_gradients


def optimizer(training: TrainingConfig) -> tf.keras.optimizers.Optimizer:
    """Returns the optimizer of a config.

    Raises ConfigError for unknown `optimizer_options` and for nadam under Keras 2, RunError for a version of Keras that
    does not fit.
    """
    if training.optimizer == "nadam" and keras.__version__.startswith("2."):
        problem = "Keras 2 does not save all of its state, so that a stopped training could not be resumed"
        raise ConfigError(f"training.optimizer: nadam: {problem}; install TensorFlow 2.16 or later, or use adam")
    kind = keras_parts.part(tf.keras.optimizers, OPTIMIZERS[training.optimizer])
    keras_parts.part(kind, *_SUMMING_METHODS)
    parameters = inspect.signature(kind).parameters
    options = [name for name in parameters if name not in _NO_OPTIONS]
    for name in training.optimizer_options:
        if name not in options:
            problems = [f"unknown option of {training.optimizer}", *did_you_mean(name, options)]
            known = f"its options: {listed(options)}"
            raise ConfigError(f"training.optimizer_options.{name}: {'; '.join([*problems, known])}")
    chosen = {
        name: _option(name, value, parameters[name].default) for name, value in training.optimizer_options.items()
    }
    epsilon = {"epsilon": training.adam_epsilon} if "epsilon" in parameters else {}
    summed = type(f"Summed{kind.__name__}", (_WithoutSum, kind), {})
    try:
        return summed(learning_rate=training.learning_rate, **epsilon, **chosen)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"training.optimizer_options: {reason(error)}") from error


def _option(name: str, value: Any, default: bool | float | None) -> bool | float | None:
    """Returns the value of an option whose type is that of its default; where that is None, it may be a number, too.

    Raises ConfigError for a value of another type.
    """
    hint = bool if isinstance(default, bool) else (float | None if default is None else float)
    key = f"training.optimizer_options.{name}"
    return value_of(hint, value, key, Origin("config"), {})
