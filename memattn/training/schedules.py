"""Learning-rate schedules: factors of `training.learning_rate` by training step."""

import dataclasses

from memattn.config import TrainingConfig


def constant(training: TrainingConfig, step: int, decays: int) -> float:
    """Stays at 1."""
    return 1.0


def inverse_sqrt(training: TrainingConfig, step: int, decays: int) -> float:
    """Rises linearly to 1 in `warmup_steps`, then falls with the root of the step (Vaswani et al., 2017)."""
    return min((step + 1) / training.warmup_steps, (training.warmup_steps / (step + 1)) ** 0.5)


def linear(training: TrainingConfig, step: int, decays: int) -> float:
    """Falls from 1 at the first step to 0 after `max_steps`."""
    return 1 - step / training.max_steps


def plateau(training: TrainingConfig, step: int, decays: int) -> float:
    """Is multiplied by `decay_factor` each time that validation has not improved for `decay_patience` validations."""
    return training.decay_factor**decays


SCHEDULES = {  # by the names of training.schedule
    "constant": constant,
    "inverse_sqrt": inverse_sqrt,
    "linear": linear,
    "plateau": plateau,
}


def learning_rate(training: TrainingConfig, step: int, decays: int) -> float:
    """Returns the learning rate after `step` updates and `decays` decays by validation."""
    return training.learning_rate * SCHEDULES[training.schedule](training, step, decays)


def decays_by_validation(training: TrainingConfig) -> bool:
    """Whether the learning rate depends on validations."""
    return learning_rate(training, 0, 0) != learning_rate(training, 0, 1)


def depends_on_max_steps(training: TrainingConfig) -> bool:
    """Whether the learning rate would have been another one in some past step if `max_steps` were greater."""
    longer = dataclasses.replace(training, max_steps=2 * training.max_steps)
    steps = {0, training.max_steps // 2, training.max_steps - 1}
    return any(learning_rate(training, step, 0) != learning_rate(longer, step, 0) for step in steps)
