"""Options of training: loss, optimizer, validation, checkpoints and stopping."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from memattn.evaluation.metrics import METRICS
from memattn.options import OneOf, Options, PositiveInt, Precision, Problems, Range, Rate, Seed
from memattn.training.optimization import LOSSES, OPTIMIZERS, SCHEDULES


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
    learning_rate: Annotated[float, Range(above=0, below=3.4e38)] = 1e-4  # learning rate before the schedule
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
    teacher_weight: Annotated[float, Range(at_least=0, below=3.4e38)] = 1.0
    teacher_steps: PositiveInt = 1_000  # training steps in which teacher_weight falls to 0
    # compile with XLA; auto: from TensorFlow 2.20 on, but not for bfloat16 on a CPU or for Neural GPUs
    jit_compile: bool | Literal["auto"] = "auto"

    def problems(self) -> Problems:
        if self.teacher and self.init_from:
            yield "teacher", "given beside training.init_from; give one of them"
