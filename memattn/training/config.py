"""Options of training, with the losses, optimizers and learning-rate schedules that they name.

A loss is a function with the arguments of `cross_entropy`, entered in LOSSES. A schedule is a function with those of
`constant`, entered in SCHEDULES. `training.loss` and `training.schedule` then know its name.
"""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import tensorflow as tf

from memattn.errors import ConfigError, reason
from memattn.evaluation.metrics import METRICS
from memattn.options import OneOf, OptionError, Options, PositiveInt, Precision, Problems, Range, Rate, Seed, arguments


class Loss(NamedTuple):
    """Sums over the target tokens of a batch, scalars."""

    objective: tf.Tensor  # quantity that an update minimizes
    cross_entropy: tf.Tensor  # negative log-probability of the targets, which training reports whatever it minimizes


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


LOSSES = {"cross_entropy": cross_entropy}  # by the names in training.loss

_CLASSES = ("Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "RMSprop", "SGD", "Lion")
OPTIMIZERS = {name.lower(): name for name in _CLASSES}  # classes of tf.keras.optimizers, by training.optimizer
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

    Raises ConfigError for unknown `optimizer_options`.
    """
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


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Options):
    """Loss, optimizer, validation, checkpoints and stopping."""

    seed: Seed = 1  # seed of initial weights, order of the pairs and dropout
    batch_size: PositiveInt = 128  # size of a batch, all replicas together
    # unit of batch_size: sentence pairs, or tokens (or vectors) of the source or the target, whichever is longer, with
    # padding
    batch_type: Literal["sentences", "tokens"] = "sentences"
    accumulate: PositiveInt = 1  # batches in one training step
    loss: Annotated[str, OneOf(LOSSES)] = "cross_entropy"  # loss that training minimizes
    optimizer: Annotated[str, OneOf(OPTIMIZERS)] = "adam"  # optimizer of Keras
    # further arguments of the optimizer in Keras, such as {momentum: 0.9} for sgd
    optimizer_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    learning_rate: Annotated[float, Range(above=0)] = 1e-4  # learning rate before the schedule
    # epsilon of adam, and of the other optimizers that have one; google/seq2seq's example configs have 8e-7
    adam_epsilon: Annotated[float, Range(at_least=1e-30, below=1)] = 1e-7
    # learning rate over training. inverse_sqrt: rises, then falls with the square root of the step; linear: falls to 0
    # at max_steps; plateau: falls when validation does not improve
    schedule: Annotated[str, OneOf(SCHEDULES)] = "constant"
    warmup_steps: PositiveInt = 4_000  # for inverse_sqrt: training steps in which the rate rises from 0
    decay_factor: Annotated[float, Range(above=0, below=1)] = 0.5  # for plateau: factor that multiplies the rate
    decay_patience: PositiveInt = 1  # for plateau: validations without improvement before the rate falls
    min_learning_rate: Annotated[float, Range(at_least=0)] = 1e-8  # for plateau: rate at which it stops falling
    label_smoothing: Rate = 0.0  # probability spread over the whole vocabulary
    # type that layers compute in; weights are always float32
    precision: Precision = "float32"
    clip_norm: Annotated[float, Range(above=0)] = 5.0  # upper bound on the norm of all gradients together
    max_steps: PositiveInt = 200_000  # upper bound on training steps
    # upper bound on training steps in a row that are skipped because loss or gradient is not finite; more end training
    max_bad_steps: Annotated[int, Range(at_least=0)] = 10
    log_every: PositiveInt = 100  # training steps between lines of output
    validate_every: PositiveInt = 1_000  # training steps between validations
    # beam size in validation; 1 is greedy decoding
    validation_beam_size: Annotated[int, Range(at_least=1, below=1000)] = 1
    checkpoint_every: PositiveInt = 1_000  # training steps between checkpoints
    # a checkpoint is written at the latest after so many minutes
    checkpoint_minutes: Annotated[float, Range(above=0)] = 30.0
    keep_checkpoints: PositiveInt = 3  # number of latest checkpoints that are kept, beside the best one
    # metric of validation that chooses the best checkpoint (between equal values, exact match decides), and that
    # patience, stop_at and plateau use
    metric: Annotated[str, OneOf(METRICS)] = "bleu"
    stop_at: float | None = None  # training ends when the metric reaches this value in validation
    patience: PositiveInt | None = None  # training ends after so many validations without improvement
    # fine-tuning: run folder whose best weights training starts from; the data needs the vocabulary of that run
    init_from: str | None = None
    # distillation: run folder of a teacher with the same encoder; training starts from the teacher's encoder and, for
    # teacher_steps, also minimizes the distance to the teacher's contexts (docs/results/slots.md)
    teacher: str | None = None
    # initial weight of the distance to the teacher's contexts, a mean squared difference; 0: only the teacher's encoder
    # is used
    teacher_weight: Annotated[float, Range(at_least=0)] = 1.0
    teacher_steps: PositiveInt = 1_000  # training steps in which teacher_weight falls to 0
    # compile with XLA; auto: from TensorFlow 2.20 on, but not for bfloat16 on a CPU or for Neural GPUs
    jit_compile: bool | Literal["auto"] = "auto"

    def problems(self) -> Problems:
        if self.teacher and self.init_from:
            yield "teacher", "given beside training.init_from; give one of them"

    @property
    def can_train_longer(self) -> bool:
        """Whether a greater `max_steps` would have changed no learning rate of a past step."""
        longer = dataclasses.replace(self, max_steps=2 * self.max_steps)
        steps = {0, self.max_steps // 2, self.max_steps - 1}
        return all(learning_rate(self, step, 0) == learning_rate(longer, step, 0) for step in steps)


def learning_rate(training: TrainingConfig, step: int, decays: int) -> float:
    """Returns the learning rate of the next update."""
    return training.learning_rate * SCHEDULES[training.schedule](training, step, decays)
