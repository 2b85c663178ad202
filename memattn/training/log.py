"""Reports on training steps and validations: lines to print, and numbers, texts and pictures for TensorBoard."""

import contextlib
import math
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from memattn.config import Config, Seq2SeqConfig, TrainingConfig
from memattn.evaluation.metrics import METRICS
from memattn.training.config import learning_rate
from memattn.training.opening import OpenRun
from memattn.training.step import UpdateResult

_MANY_PAIRS = 1_000_000  # training pairs, from which on the paper's learning rate gets no note
_PICTURE_SECONDS = 30.0  # least time between two pictures; drawing one takes a second or two


class Log:
    """Reports on a training: the chief prints lines, and records events for TensorBoard."""

    def __init__(self, run: OpenRun):
        self._run, self.say = run, run.workers.say
        self.results: list[UpdateResult] = []  # those that no report has counted yet
        self.logged_at = time.monotonic()  # time of the last report, later by the time of validations since then
        self._drawn_at = time.monotonic()  # time of the last picture
        self.bar = tqdm(disable=True)  # shows the steps on a terminal, once the log is opened
        self._decays = run.progress.decays  # those at the last validation

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Records events into the run folder in this context, and shows a progress bar if there is a terminal."""
        run = self._run
        with run.workers.entered_on_chief(_recording_into(run.run_folder.events)):
            if run.restored:
                self.say(f"resuming from {run.restored}")
            if run.training_step.jit_compile:
                self.say(f"compiling for {len(run.batches.widths)} padded lengths: the first steps take longer")
            with tqdm(
                total=run.config.training.max_steps,
                initial=run.progress.step,
                unit="step",
                leave=False,
                file=sys.stdout,
                dynamic_ncols=True,
                smoothing=0,  # the time left includes validations
                disable=None if run.workers.is_chief else True,  # None: unless there is a terminal
            ) as self.bar:
                yield

    def introduce(self) -> None:
        """Prints what is trained, and which weights it starts with."""
        run, config = self._run, self._run.config
        parameters = sum(math.prod(variable.shape) for variable in run.model.trainable_variables)
        self.say(f"{run.folder}: {parameters:,} parameters, {run.batches.pairs:,} training pairs")
        if left_out := len(run.batches.corpus) - run.batches.pairs:
            self.say(f"{left_out:,} pairs are left out: longer than data.max_source_length or data.max_target_length")
        if run.validation.warning:
            self.say(f"{config.data.path}: {run.validation.warning}; where it is 0, exact match decides")
        if note := note_on_settings(config, run.batches.pairs):
            self.say(note)
        if config.training.init_from and not run.progress.step:
            self.say(f"starting with the best weights of {config.training.init_from}")

    def write_steps(self) -> None:
        """Records a report on the steps since the last one. Prints it, unless a terminal shows a progress bar."""
        if not self.results:
            return
        training, progress, now = self._run.config.training, self._run.progress, time.monotonic()
        finite = [result for result in self.results if result.is_finite]
        if skipped := len(self.results) - len(finite):
            self.say(f"step {progress.step:,}: updates skipped, as loss or gradient was not finite: {skipped}")
        if finite:
            rate = learning_rate(training, progress.step - 1, progress.decays)
            scalars = step_scalars(finite, len(self.results), now - self.logged_at, rate)
            if self.bar.disable:
                self.say(steps_line(progress.step, training.max_steps, scalars))
            self.bar.set_postfix_str(f"loss {scalars['loss']:.4f}, {scalars['tokens_per_second']:,.0f} tokens/s")
            self._run.workers.on_chief(record, "train", scalars, progress.step)
        self.results.clear()
        self.logged_at = now

    def write_validation(self, scores: Mapping[str, float], seconds: float, *, is_best: bool) -> None:
        """Prints and records a validation, which took `seconds`."""
        training, progress = self._run.config.training, self._run.progress
        self.bar.set_description_str("")
        self.say(validation_line(progress.step, scores, seconds, is_best=is_best))
        self._run.workers.on_chief(record, "validation", scores, progress.step)
        self._run.workers.on_chief(self._show_example)
        if progress.decays > self._decays:
            rate = learning_rate(training, progress.step, progress.decays)
            self.say(f"no better for {progress.stalled} validations: the learning rate is now {rate:.3g}")
            self._decays = progress.decays

    def _show_example(self) -> None:
        """Prints and records a sentence with its translation; now and then, also draws their alignment."""
        validation, step = self._run.validation, self._run.progress.step
        lines = [f"{name:<13}{text}".rstrip() for name, text in validation.example._asdict().items()]
        for line in lines:
            self.say(f"  {line}")
        code = "\n".join(f"    {line}" for line in lines)  # Markdown: shown as they are
        tf.summary.text("validation/example", tf.constant(code), np.int64(step))
        if time.monotonic() - self._drawn_at >= _PICTURE_SECONDS and (png := validation.draw_example()):
            picture = tf.io.decode_png(png, channels=3)[None]
            tf.summary.image("validation/alignment", picture, np.int64(step))
            self._drawn_at = time.monotonic()

    def write_end(self) -> None:
        """Prints why training has ended."""
        progress, metric = self._run.progress, METRICS[self._run.config.training.metric]
        best = metric.with_unit(progress.best[0]) if progress.best else "none"
        self.say(f"finished: {progress.finished}; best validation {metric.title} {best}")
        self.say(f"evaluate with: memattn-eval --run_dir {shlex.quote(self._run.folder)}")


def step_scalars(finite: Sequence[UpdateResult], steps: int, seconds: float, learning_rate: float) -> dict[str, float]:
    """Returns numbers on training steps, by name, from the results of those that were not skipped."""
    total = UpdateResult(*map(sum, zip(*finite, strict=True)))
    return {
        "loss": total.loss / total.tokens,
        "accuracy": total.correct / total.tokens,
        "gradient_norm": total.gradient_norm / len(finite),
        "learning_rate": learning_rate,
        "steps_per_second": steps / seconds,
        "tokens_per_second": total.tokens / seconds,
    }


def steps_line(step: int, max_steps: int, scalars: Mapping[str, float]) -> str:
    """Returns the line on the training steps that ended with `step`."""
    loss, speed = scalars["loss"], scalars["steps_per_second"]
    left = tqdm.format_interval((max_steps - step) / speed)
    return (
        f"step {step:,}/{max_steps:,}  loss {loss:.4f}  perplexity {math.exp(min(loss, 99)):.3f}  "
        f"accuracy {100 * scalars['accuracy']:.2f}%  {speed:.2f} steps/s  "
        f"{scalars['tokens_per_second']:,.0f} target tokens/s  {left} left"
    )


def validation_line(step: int, scores: Mapping[str, float], seconds: float, *, is_best: bool) -> str:
    """Returns the line on a validation after `step`, which took `seconds`."""
    texts = [f"{METRICS[name].title} {METRICS[name].with_unit(score)}" for name, score in scores.items()]
    return f"validation at step {step:,}: {'  '.join(texts)}  ({seconds:.1f} s){'  best so far' if is_best else ''}"


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


@contextlib.contextmanager
def _recording_into(events: str) -> Iterator[None]:
    """Writes what is recorded in this context into a folder of TensorBoard's events; elsewhere, nothing is recorded."""
    writer = tf.summary.create_file_writer(events)
    with contextlib.closing(writer), writer.as_default():
        yield


def record(group: str, scalars: Mapping[str, float], step: int) -> None:
    """Records numbers of a step for TensorBoard, each as GROUP/NAME."""
    for name, value in scalars.items():  # NumPy numbers: TensorFlow would cache every Python number
        tf.summary.scalar(f"{group}/{name}", np.float32(value), np.int64(step))
