"""The progress of a training run, as kept in its checkpoints."""

import json

import tensorflow as tf


class Progress(tf.train.experimental.PythonState):
    """The progress of a run: a checkpoint's content besides the weights and the optimizer."""

    def __init__(self):
        self.step = self.examples = self.stalled = self.decays = 0
        self.bad_steps = 0  # the latest steps in a row whose loss or gradient was not finite
        self.epoch = self.window = self.batch = 0  # the place in the data of the next batch
        self.seconds = 0.0
        self.best = [-1.0, -1.0]  # BLEU, then exact match, which still differs where BLEU is 0
        self.finished = ""
        self.validations = []

    def serialize(self) -> str:
        return json.dumps({name: value for name, value in vars(self).items() if not name.startswith("_")})

    def deserialize(self, string_value: str) -> None:
        vars(self).update(json.loads(string_value))


def clock(seconds: float) -> str:
    """Seconds in readable form: 1:02:03, or 2:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
