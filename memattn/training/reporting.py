"""Reports on training steps and validations: lines to print, and numbers, texts and pictures for TensorBoard."""

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from memattn import console
from memattn.config import Config, Seq2SeqConfig, TrainingConfig
from memattn.evaluation.formatting import clock
from memattn.evaluation.metrics import METRICS
from memattn.runs.run import Run
from memattn.training import divergence
from memattn.training.opening import OpenRun
from memattn.training.progress import Progress
from memattn.training.schedules import learning_rate
from memattn.training.step import UpdateResult
from memattn.training.validation import ValidationExample

_MANY_PAIRS = 1_000_000  # training pairs, from which on the paper's learning rate gets no note
MOST_PENDING = 100  # steps that may run before training waits for their results


class Report(NamedTuple):
    """A report on some training steps.

    Attributes:
      warning: a line on skipped updates; "" if there are none.
      line: a line on all other steps; "" if there are none.
      scalars: numbers on all other steps, by name.
    """

    warning: str
    line: str
    scalars: dict[str, float]


def steps_report(
    results: Sequence[UpdateResult], *, step: int, max_steps: int, seconds: float, learning_rate: float
) -> Report:
    """Reports on the training steps that ended with `step` and took `seconds`; there must be a result."""
    finite = [result for result in results if result.is_finite]
    skipped = len(results) - len(finite)
    warning = f"step {step:,}: updates skipped, as loss or gradient was not finite: {skipped}" if skipped else ""
    if not finite:
        return Report(warning, "", {})
    total = UpdateResult(*map(sum, zip(*finite, strict=True)))
    loss, accuracy, speed = total.loss / total.tokens, total.correct / total.tokens, len(results) / seconds
    line = (
        f"step {step:,}/{max_steps:,}  loss {loss:.4f}  perplexity {math.exp(min(loss, 99)):.3f}  "
        f"accuracy {100 * accuracy:.2f}%  {speed:.2f} steps/s  {total.tokens / seconds:,.0f} target tokens/s  "
        f"{clock((max_steps - step) / speed)} left"
    )
    scalars = {
        "loss": loss,
        "accuracy": accuracy,
        "gradient_norm": total.gradient_norm / len(finite),
        "learning_rate": learning_rate,
        "steps_per_second": speed,
        "tokens_per_second": total.tokens / seconds,
    }
    return Report(warning, line, scalars)


def progress_parts(training: TrainingConfig, progress: Progress, scalars: Mapping[str, float]) -> list[str]:
    """Returns the parts of the line that a terminal shows during training, the most important ones first.

    `scalars` are those of the last report on training steps; none before the first.
    """
    parts = [f"step {progress.step:,}/{training.max_steps:,}"]
    if progress.validation_due:
        return [*parts, "validating"]
    if scalars:
        left = (training.max_steps - progress.step) / scalars["steps_per_second"]
        parts += [
            f"loss {scalars['loss']:.4f}",
            f"{scalars['tokens_per_second']:,.0f} tokens/s",
            f"{clock(left)} left",
        ]
    if progress.best:
        metric = METRICS[training.metric]
        parts.append(f"best {metric.title} {metric.with_unit(progress.best[0])}")
    return parts


def validation_line(step: int, scores: Mapping[str, float], seconds: float, *, is_best: bool) -> str:
    """Returns the line on a validation after `step`, which took `seconds`."""
    texts = [f"{METRICS[name].title} {METRICS[name].with_unit(score)}" for name, score in scores.items()]
    return f"validation at step {step:,}: {'  '.join(texts)}  ({seconds:.1f} s){'  best so far' if is_best else ''}"


def example_lines(example: ValidationExample) -> list[str]:
    """Returns a sentence, its reference and its translation, each as a line."""
    return [f"{name:<13}{text}".rstrip() for name, text in example._asdict().items()]


def note_on_settings(config: Config, pairs: int) -> str | None:
    """Returns a line on settings with which a text of so many pairs is learned slowly; None for all other settings."""
    rate = TrainingConfig().learning_rate
    is_small_text = config.data.generated is None and pairs < _MANY_PAIRS
    if not is_small_text or not isinstance(config.model, Seq2SeqConfig) or config.training.learning_rate != rate:
        return None
    return (
        f"training.learning_rate {rate:g} is the paper's, with which a text of this size is learned slowly; "
        "see the configs own_text/small and own_text/base"
    )


def end_line(finished: str, metric: str, best: float | None) -> str:
    """Returns the line on why training has ended, and on the best value of `training.metric`."""
    value = "none" if best is None else METRICS[metric].with_unit(best)
    return f"finished: {finished}; best validation {METRICS[metric].title} {value}"


class Events:
    """Writer of TensorBoard's events: numbers, texts and pictures, each with its training step.

    Attributes:
      failure: error of a write; None if none failed. Training raises it where all workers can end together.
    """

    failure: OSError | tf.errors.OpError | None = None

    @contextlib.contextmanager
    def written_to(self, folder: str) -> Iterator[None]:
        """Writes what is recorded in this context into a run folder. Outside of it, records are lost."""
        writer = tf.summary.create_file_writer(Run(folder).events)
        with contextlib.closing(writer), writer.as_default():
            yield

    def record(self, group: str, scalars: Mapping[str, float], step: int) -> None:
        """Records numbers of a step, each as GROUP/NAME."""
        with self._noting_failure():
            for name, value in scalars.items():  # NumPy numbers: TensorFlow would cache every Python number
                tf.summary.scalar(f"{group}/{name}", np.float32(value), np.int64(step))

    def record_text(self, name: str, lines: list[str], step: int) -> None:
        """Records lines of text of a step, which TensorBoard shows as they are."""
        with self._noting_failure():
            code = "\n".join(f"    {line}" for line in lines)  # in Markdown
            tf.summary.text(name, tf.constant(code), np.int64(step))

    def record_picture(self, name: str, png: bytes, step: int) -> None:
        """Records a picture of a step."""
        with self._noting_failure():
            tf.summary.image(name, tf.io.decode_png(png, channels=3)[None], np.int64(step))

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            self.failure = error


class PendingStep(NamedTuple):
    """A training step whose result is not read yet.

    Attributes:
      number: number of the step, from 1.
      result: the result that `TrainingStep` returned.
      place: epoch, window and batch of the first batch that the update was computed from.
    """

    number: int
    result: tf.Tensor
    place: tuple[int, int, int]


class StepLog:
    """The results of the steps since the last report.

    Training does not wait for a step's result: while the devices compute, further batches are prepared. Results are
    read when a report, a validation or a checkpoint needs them, or when many are pending.

    Attributes:
      pending: steps whose results are not read yet.
      results: results that no report has counted yet.
      logged_at: time of the last report; validations since then are not counted.
    """

    def __init__(self, run: OpenRun, events: Events):
        self._run, self._events = run, events
        self.pending: list[PendingStep] = []
        self.results: list[UpdateResult] = []
        self.logged_at = time.monotonic()
        self._scalars: dict[str, float] = {}  # those of the last report

    def add(self, step: PendingStep) -> None:
        """Notes a step that has been started. Raises as `collect`."""
        self.pending.append(step)
        if len(self.pending) == MOST_PENDING:
            self.collect()

    def collect(self) -> None:
        """Waits for the pending steps. Raises RunError if too many updates in a row were not finite, and so skipped."""
        progress = self._run.progress
        for step in self.pending:
            result = UpdateResult.read(step.result)
            self.results.append(result)
            if result.is_finite:
                progress.bad_steps = 0
                progress.add_loss(result.loss, result.tokens)
            else:
                progress.bad_steps += 1
            if progress.bad_steps > self._run.config.training.max_bad_steps:
                raise divergence.skipped_too_often(self._run, step.number, step.place)
        self.pending.clear()

    def write(self) -> None:
        """Records a report on the steps since the last one. Prints it, unless a terminal shows a line on progress."""
        self.collect()
        if not self.results:
            return
        now, training, progress = time.monotonic(), self._run.config.training, self._run.progress
        report = steps_report(
            self.results,
            step=progress.step,
            max_steps=training.max_steps,
            seconds=now - self.logged_at,
            learning_rate=learning_rate(training, progress.step - 1, progress.decays),
        )
        self.results.clear()
        self.logged_at = now
        if report.warning:
            self._run.say(report.warning)
        if report.line and not console.on_terminal():
            self._run.say(report.line)
        self._scalars = report.scalars or self._scalars
        self._events.record("train", report.scalars, progress.step)

    def progress_parts(self) -> list[str]:
        """Returns the parts of the line that a terminal shows. It is up to date but for results that are not read."""
        return progress_parts(self._run.config.training, self._run.progress, self._scalars)

    def leave_out(self, seconds: float) -> None:
        """Excludes time without training steps from the speed in the next report."""
        self.logged_at += seconds
