"""Keeps the progress of a training run for its checkpoints, and decides what follows from the scores of validations."""

import json
import math
from collections.abc import Mapping, Sequence

import tensorflow as tf

from memattn.data.batches import Batch, Position
from memattn.data.vocabulary import PAD
from memattn.evaluation.metrics import METRICS
from memattn.training.config import TrainingConfig, learning_rate
from memattn.training.step import UpdateResult


class Progress(tf.train.experimental.PythonState):
    """The content of a checkpoint beside the weights and the state of the optimizer."""

    def __init__(self) -> None:
        self.step = 0  # updates of the weights so far
        self.examples = 0  # sentence pairs in these updates
        self.epoch = self.window = self.batch = 0  # position of the next batch in the data
        self.seconds = 0.0  # time spent on training, stops not counted
        self.bad_steps = 0  # updates skipped in a row so far, as their loss or gradient was not finite
        self.first_loss: float | None = None  # loss per target token of the first update
        self.interval_loss = self.interval_tokens = 0.0  # sums over the updates since the last validation
        self.validation_due = False  # a validation after this step is still to be done: a signal came before its end
        self.validations: list[dict[str, float]] = []  # rows of validation.csv
        self.best: list[float] | None = None  # `training.metric` of the best validation, then its exact match
        self.stalled = 0  # validations since the best one
        self.decays = 0  # how often the learning rate has fallen after validations
        self.finished = ""  # why training has ended
        self.is_out_of_steps = False  # it has ended because all of its steps are done
        self.diverged = ""  # why the weights are useless at the end

    @property
    def position(self) -> Position:
        """Position of the next batch in the data: epoch, window and batch."""
        return self.epoch, self.window, self.batch

    def add_step(self, batches: Sequence[Batch], position: Position) -> None:
        """Counts an update from batches; `position` is that of the next batch."""
        self.step += 1
        self.epoch, self.window, self.batch = position
        self.examples += sum(int((target[:, 0] != PAD).sum()) for _, target in batches)

    def add_result(self, result: UpdateResult) -> None:
        """Adds the loss of an update; counts the update as bad if it was skipped."""
        if not result.is_finite:
            self.bad_steps += 1
            return
        self.bad_steps = 0
        self.interval_loss += result.loss
        self.interval_tokens += result.tokens
        if self.first_loss is None:
            self.first_loss = result.loss / result.tokens

    def add_validation(self, training: TrainingConfig, scores: Mapping[str, float], vocabulary_size: int) -> bool:
        """Notes the scores of a validation after this step, and what follows; returns whether they are the best so far.

        `training.metric` decides, and exact match breaks ties, since it may rise while BLEU is still 0.
        """
        value, match = scores[training.metric], scores["exact_match"]
        best_value, best_match = self.best or (math.nan, 0.0)
        is_better = self.best is None or METRICS[training.metric].is_better(value, best_value)
        is_best = is_better or (value == best_value and match > best_match)
        self.stalled = 0 if is_best else self.stalled + 1
        if is_best:
            self.best = [value, match]
        rounded = {name: round(score, 4) for name, score in scores.items()}
        self.validations.append(
            {"step": self.step, "examples": self.examples, **rounded, "seconds": round(self.seconds, 1)}
        )
        self._decay(training)
        self._end(training, value, vocabulary_size)
        self.interval_loss = self.interval_tokens = 0.0
        self.validation_due = False
        return is_best

    def _decay(self, training: TrainingConfig) -> None:
        """Lowers the learning rate if its schedule does so after `stalled` validations."""
        is_due = self.stalled > 0 and self.stalled % training.decay_patience == 0
        rate, lower_rate = (learning_rate(training, self.step, self.decays + more) for more in (0, 1))
        self.decays += is_due and lower_rate < rate

    def _end(self, training: TrainingConfig, value: float, vocabulary_size: int) -> None:
        """Notes whether training ends after a validation with this value of the metric, and whether it has diverged."""
        metric, when = METRICS[training.metric], f"at step {self.step:,}"
        if training.stop_at is not None and not metric.is_better(training.stop_at, value):
            self.finished = f"{metric.title} {metric.with_unit(value)} {when}"
        elif training.patience is not None and self.stalled >= training.patience:
            self.finished = f"{self.stalled} validations without a better {metric.title} {when}"
        elif self.step >= training.max_steps:
            self.finished, self.is_out_of_steps = f"{self.step:,} steps", True
        if self.finished:
            self.diverged = self._divergence(vocabulary_size)

    def resume(self, training: TrainingConfig) -> None:
        """Resumes a run that had done all of its steps, if `max_steps` has been raised since."""
        if self.is_out_of_steps and self.step < training.max_steps:
            self.finished, self.is_out_of_steps, self.diverged = "", False, ""

    def _divergence(self, vocabulary_size: int) -> str:
        """Returns why the updates since the last validation show that the weights are useless; "" if they do not.

        Weights are useless if all updates were skipped, or if the mean loss is above two bounds: the loss of the first
        update, and twice the loss of equal probabilities for all tokens. A run that learns anything falls below both.
        """
        if not self.interval_tokens:
            return "every update since the last validation was skipped, as its loss or gradient was not finite"
        loss, uniform_loss = self.interval_loss / self.interval_tokens, math.log(vocabulary_size)
        if loss <= max(2 * uniform_loss, self.first_loss or 0.0):
            return ""
        return (
            f"the loss per token ended at {loss:.4g}, where equal probabilities for all tokens give {uniform_loss:.4g}"
        )

    def serialize(self) -> str:
        """Returns all attributes but those that TensorFlow adds, as JSON."""
        return json.dumps({name: value for name, value in vars(self).items() if not name.startswith("_")})

    def deserialize(self, string_value: str | bytes) -> None:
        """Sets the attributes from the text of `serialize`. Absent ones keep their values."""
        self.__dict__.update(json.loads(string_value))
