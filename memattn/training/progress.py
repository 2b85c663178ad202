"""The progress of a training run, as kept in its checkpoints."""

import json

import tensorflow as tf

from memattn import reading


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

    def deserialize(self, string_value: str | bytes) -> None:
        """Takes over what `serialize` gave. Raises ValueError, and changes nothing, if it is damaged."""
        kept = reading.json_value(tf.compat.as_text(string_value))
        reading.check_kinds(kept, {})
        known = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        reading.check_kinds(kept, {name: type(value) for name, value in known.items() if name in kept})
        best = kept.get("best", self.best)
        rows = kept.get("validations", [])
        if [isinstance(score, (int, float)) for score in best] != [True, True]:
            raise ValueError("best: expected two numbers")
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("validations: expected mappings")
        vars(self).update({name: value for name, value in kept.items() if name in known})


def clock(seconds: float) -> str:
    """Seconds in readable form: 1:02:03, or 2:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
