"""Learning-rate schedules: functions that return the factor of `training.learning_rate` at a training step.

Each takes `step`, the number of updates so far, and `decays`, the number of times that validations lowered the rate.
"""

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memattn.training.config import TrainingConfig


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


SCHEDULES = {  # by the names in training.schedule
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
