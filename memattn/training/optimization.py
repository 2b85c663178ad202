"""Losses, optimizers and learning-rate schedules, by the names in a config.

A loss is a function with the arguments of `cross_entropy`, entered in LOSSES. A schedule is a function with those of
`constant`, entered in SCHEDULES. `training.loss` and `training.schedule` then know its name.
"""

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import tensorflow as tf

from memattn.errors import ConfigError, reason
from memattn.options import OptionError, arguments

if TYPE_CHECKING:
    from memattn.training.config import TrainingConfig


class Loss(NamedTuple):
    """Sums over the target tokens of a batch, scalars.

    Attributes:
      objective: quantity that an update minimizes.
      cross_entropy: negative log-probability of the targets, which training reports whatever it minimizes.
    """

    objective: tf.Tensor
    cross_entropy: tf.Tensor


def cross_entropy(logits: tf.Tensor, targets: tf.Tensor, mask: tf.Tensor, *, label_smoothing: float = 0.0) -> Loss:
    """Returns the sum of -(1 - e) log p(y) - e / V sum_v log p(v) over all target tokens y.

    Args:
      logits: [B, T, V], in float32.
      targets: ids [B, T].
      mask: [B, T], False at padding.
      label_smoothing: e, the probability that is spread over the vocabulary (Szegedy et al., 2016).
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)  # [B, T], -log p(y)
    plain = tf.reduce_sum(tf.where(mask, losses, 0.0))
    if not label_smoothing:
        return Loss(plain, plain)
    log_totals = losses + tf.gather(logits, targets, batch_dims=2)  # log sum exp, computed once
    uniform = tf.reduce_sum(tf.where(mask, log_totals - tf.reduce_mean(logits, -1), 0.0))
    return Loss(plain + label_smoothing * (uniform - plain), plain)


def context_distance(contexts: tf.Tensor, teacher_contexts: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the mean squared difference between contexts [B, T, D] of student and teacher, summed over tokens.

    `mask` [B, T] is False at padding.
    """
    distances = tf.reduce_mean(
        tf.math.squared_difference(tf.cast(contexts, tf.float32), teacher_contexts), -1
    )  # [B, T]
    return tf.reduce_sum(tf.where(mask, distances, 0.0))


LOSSES = {"cross_entropy": cross_entropy}  # by the names in training.loss

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

    _all_reduce_sum_gradients = aggregate_gradients  # the name in Keras 3


def optimizer(training: "TrainingConfig") -> tf.keras.optimizers.Optimizer:
    """Returns the optimizer of a config, which takes gradients that are already summed over the replicas.

    Raises ConfigError for unknown `optimizer_options` and for nadam under Keras 2.
    """
    if training.optimizer == "nadam" and keras.__version__.startswith("2."):
        problem = "Keras 2 does not save all of its state, so that a stopped training could not be resumed"
        raise ConfigError(f"training.optimizer: nadam: {problem}; install TensorFlow 2.16 or later, or use adam")
    kind = getattr(tf.keras.optimizers, OPTIMIZERS[training.optimizer])
    parameters = inspect.signature(kind).parameters
    known = {
        name: parameter.replace(annotation=_type_of(parameter.default))
        for name, parameter in parameters.items()
        if name not in _NO_OPTIONS
    }
    try:
        options = arguments(known, training.optimizer_options, training.optimizer)
    except OptionError as error:
        raise ConfigError(f"training.optimizer_options.{error}") from error
    if "epsilon" in parameters:
        options["epsilon"] = training.adam_epsilon
    without_sum = type(f"Summed{kind.__name__}", (_WithoutSum, kind), {})
    try:
        return without_sum(learning_rate=training.learning_rate, **options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"training.optimizer_options: {reason(error)}") from error


def _type_of(default: Any) -> Any:
    """Returns the type of an optimizer's option with this default in Keras."""
    return bool if isinstance(default, bool) else (float | None if default is None else float)


def constant(training: "TrainingConfig", step: int, decays: int) -> float:
    """Returns 1."""
    return 1.0


def inverse_sqrt(training: "TrainingConfig", step: int, decays: int) -> float:
    """Returns a factor that rises linearly to 1 in `warmup_steps`, then falls with the square root of the step.

    See Vaswani et al. (2017).
    """
    return min((step + 1) / training.warmup_steps, (training.warmup_steps / (step + 1)) ** 0.5)


def linear(training: "TrainingConfig", step: int, decays: int) -> float:
    """Returns a factor that falls linearly from 1 at the first step to 0 after `max_steps`."""
    return 1 - step / training.max_steps


def plateau(training: "TrainingConfig", step: int, decays: int) -> float:
    """Returns a factor that is 1, times `decay_factor` for every `decay_patience` validations without improvement.

    The learning rate does not fall below `min_learning_rate`.
    """
    return max(training.decay_factor**decays, min(1.0, training.min_learning_rate / training.learning_rate))


# By the names in training.schedule. A schedule returns the factor of `training.learning_rate` at a training step, from
# the number of updates so far, and the number of times that validations lowered the rate.
SCHEDULES = {
    "constant": constant,
    "inverse_sqrt": inverse_sqrt,
    "linear": linear,
    "plateau": plateau,
}


def learning_rate(training: "TrainingConfig", step: int, decays: int) -> float:
    """Returns the learning rate of the next update."""
    return training.learning_rate * SCHEDULES[training.schedule](training, step, decays)


def depends_on_max_steps(training: "TrainingConfig") -> bool:
    """Returns whether a greater `max_steps` would have changed the learning rate of a past step."""
    longer = dataclasses.replace(training, max_steps=2 * training.max_steps)
    steps = {0, training.max_steps // 2, training.max_steps - 1}
    return any(learning_rate(training, step, 0) != learning_rate(longer, step, 0) for step in steps)
