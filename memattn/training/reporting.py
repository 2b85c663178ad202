"""Makes reports on training steps and validations: lines to print, and numbers for TensorBoard."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memattn.config import Config, Seq2SeqConfig, TrainingConfig
from memattn.evaluation.formatting import clock
from memattn.evaluation.metrics import METRICS
from memattn.training.progress import Progress
from memattn.training.step import UpdateResult
from memattn.training.validation import ValidationExample

_MANY_PAIRS = 1_000_000  # training pairs, from which on the paper's learning rate gets no note


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
