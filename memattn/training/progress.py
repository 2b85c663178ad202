"""The progress of a training run, as kept in its checkpoints."""

import json
import math
from collections.abc import Mapping

import tensorflow as tf

from memattn import reading
from memattn.config import TrainingConfig
from memattn.evaluation.metrics import METRICS
from memattn.training.schedules import decays_by_validation


class Progress(tf.train.experimental.PythonState):
    """The progress of a run: a checkpoint's content besides the weights and the optimizer.

    What the checkpoints of version 0.2 lack keeps its initial value.
    """

    def __init__(self):
        self.step = self.examples = self.stalled = self.decays = 0
        self.bad_steps = 0  # the latest steps in a row whose loss or gradient was not finite
        self.epoch = self.window = self.batch = 0  # the place in the data of the next batch
        self.seconds = 0.0
        self.best = None  # `training.metric` of the best validation, then its exact match
        self.validation_due = False  # a signal came before or in the validation of this step
        self.first_loss = None  # loss per target token of the first update
        self.interval_loss = self.interval_tokens = 0.0  # summed over the updates since the last validation
        self.finished = ""  # why training is at its end
        self.diverged = ""  # what is wrong with the weights at the end
        self.validations = []

    def add_loss(self, loss: float, tokens: float) -> None:
        """Adds the loss of an update, summed over so many target tokens; both are finite."""
        self.interval_loss += loss
        self.interval_tokens += tokens
        if self.first_loss is None and tokens:
            self.first_loss = loss / tokens

    def add_validation(self, training: TrainingConfig, scores: Mapping[str, float]) -> bool:
        """Notes the scores of a validation after this step; returns whether they are the best so far.

        They are where `training.metric` is better, or equal and exact match is higher (which still differs where BLEU
        is 0).
        """
        metric, value, match = METRICS[training.metric], scores[training.metric], scores["exact_match"]
        best, best_match = self.best or (None, None)
        better = best is None or metric.is_better(value, best) or (value == best and match > best_match)
        self.stalled = 0 if better else self.stalled + 1
        if better:
            self.best = [value, match]
        rounded = {name: round(score, 4) for name, score in scores.items()}
        self.validations.append(
            {"step": self.step, "examples": self.examples, **rounded, "seconds": round(self.seconds, 1)}
        )
        return better

    def decay(self, training: TrainingConfig) -> bool:
        """Lowers the learning rate of a schedule that goes by validations, if it is time; returns whether it was."""
        due = decays_by_validation(training) and self.stalled and self.stalled % training.decay_patience == 0
        self.decays += bool(due)
        return bool(due)

    def end(self, training: TrainingConfig, scores: Mapping[str, float], vocabulary_size: int) -> None:
        """Notes whether training ends with the validation that had these scores, and whether it has diverged."""
        metric, value, step = METRICS[training.metric], scores[training.metric], f"at step {self.step:,}"
        if training.stop_at_bleu is not None and scores["bleu"] >= training.stop_at_bleu:
            self.finished = f"BLEU {METRICS['bleu'].shown(scores['bleu'])} {step}"
        elif training.stop_at is not None and not metric.is_better(training.stop_at, value):
            self.finished = f"{metric.title} {metric.shown(value)} {step}"
        elif training.patience is not None and self.stalled >= training.patience:
            self.finished = f"{self.stalled} validations without a better {metric.title} {step}"
        elif self.step >= training.max_steps:
            self.finished = all_steps(self.step)
        if self.finished:
            self.diverged = self.divergence(vocabulary_size)
        self.interval_loss = self.interval_tokens = 0.0

    def go_on(self, training: TrainingConfig) -> None:
        """Makes a run go on that had ended after all of its steps, where `max_steps` has been raised."""
        if self.step < training.max_steps and self.finished == all_steps(self.step):
            self.finished = self.diverged = ""

    def divergence(self, vocabulary_size: int) -> str:
        """What is wrong with the loss since the last validation, if the weights are useless; else nothing.

        They are if all updates were skipped, or if the mean loss is above both that of the first update and twice that
        of equal probabilities for all tokens. The loss of a run that learns anything falls below both.
        """
        if not self.interval_tokens:
            return "every update since the last validation was skipped, as its loss or gradient was not finite"
        loss, equal = self.interval_loss / self.interval_tokens, math.log(vocabulary_size)
        if loss <= max(2 * equal, self.first_loss or 0.0):
            return ""
        return f"the loss per token ended at {loss:.4g}, where equal probabilities for all tokens give {equal:.4g}"

    def serialize(self) -> str:
        return json.dumps({name: value for name, value in vars(self).items() if not name.startswith("_")})

    def deserialize(self, string_value: str | bytes) -> None:
        """Takes over what `serialize` gave. Raises ValueError, and changes nothing, if it is damaged."""
        kept = reading.json_value(tf.compat.as_text(string_value))
        reading.check_kinds(kept, {})
        known = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        kinds = {name: type(value) for name, value in known.items()} | {
            "first_loss": (float, type(None)),
            "best": (list, type(None)),
        }
        reading.check_kinds(kept, {name: kind for name, kind in kinds.items() if name in kept})
        best = kept.get("best")
        rows = kept.get("validations", [])
        if best is not None and [isinstance(score, (int, float)) for score in best] != [True, True]:
            raise ValueError("best: expected two numbers")
        if best == [-1.0, -1.0]:  # in version 0.2, before the first validation
            kept["best"] = None
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("validations: expected mappings")
        vars(self).update({name: value for name, value in kept.items() if name in known})


def all_steps(step: int) -> str:
    """Why a run ends that has done all of its steps."""
    return f"{step:,} steps"


def clock(seconds: float) -> str:
    """Seconds in readable form: 1:02:03, or 2:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
