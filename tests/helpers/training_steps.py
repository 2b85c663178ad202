"""Training steps of a small model."""

from helpers.models import make_model, padded
from memattn.config import TrainingConfig
from memattn.data.vocabulary import EOS
from memattn.training.step import TrainingStep, UpdateResult

BATCH = padded([[4, 5, 6, EOS], [7, EOS], [EOS], [8, 9, 10, EOS]]).numpy()


def three_steps(strategy, batch, **changes):
    """A model after three training steps with the same batch, and the result of each step."""
    config = TrainingConfig(**{"batch_size": 4, "learning_rate": 0.1, "jit_compile": False, **changes})
    with strategy.scope():
        model = make_model("memory", {"num_slots": 2})
        step = TrainingStep(model, config, strategy)
    return model, [UpdateResult.read(step([(batch, batch)], number, 0.1)) for number in range(3)]
