"""Learning-rate schedules: the rate of a step."""

from memattn.config import TrainingConfig


def learning_rate(config: TrainingConfig, step: int, decays: int) -> float:
    """The rate of the update after `step` updates, where validation has had the rate decayed `decays` times.

    `inverse_sqrt` rises linearly to `learning_rate` in `warmup_steps` and falls with the root of the step from there
    on (Vaswani et al., 2017). `linear` falls from `learning_rate` at the first step to 0 after `max_steps`.
    """
    return config.learning_rate * SCHEDULES[config.schedule](config, step, decays)


SCHEDULES = {
    "constant": lambda config, step, decays: 1.0,
    "inverse_sqrt": lambda config, step, decays: min(
        (step + 1) / config.warmup_steps, (config.warmup_steps / (step + 1)) ** 0.5
    ),
    "linear": lambda config, step, decays: 1 - step / config.max_steps,
    "plateau": lambda config, step, decays: config.decay_factor**decays,
}
