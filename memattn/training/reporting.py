"""What training says of its steps and validations: lines for people, numbers for TensorBoard. It prints nothing."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memattn.evaluation.metrics import METRICS
from memattn.training.progress import clock
from memattn.training.step import StepResult


class Report(NamedTuple):
    """What is said of some training steps.

    Attributes:
      lines: a line on the steps, and one on updates that were skipped.
      scalars: name -> number, none if all updates were skipped.
    """

    lines: list[str]
    scalars: dict[str, float]


def of_steps(
    results: Sequence[StepResult], *, step: int, max_steps: int, seconds: float, learning_rate: float
) -> Report:
    """Reports on the last steps up to `step`, which took `seconds`; at least one."""
    good = [result for result in results if result.is_finite]
    lines, skipped = [], len(results) - len(good)
    if skipped:
        lines.append(f"step {step:,}: {skipped} updates skipped: loss or gradient not finite")
    if not good:
        return Report(lines, {})
    total = StepResult(*map(sum, zip(*good, strict=True)))
    loss, accuracy, speed = total.loss / total.tokens, total.correct / total.tokens, len(results) / seconds
    lines.append(
        f"step {step:,}/{max_steps:,}  loss {loss:.4f}  perplexity {math.exp(min(loss, 99)):.3f}  "
        f"accuracy {100 * accuracy:.2f}%  {speed:.2f} steps/s  {total.tokens / seconds:,.0f} target tokens/s  "
        f"{clock((max_steps - step) / speed)} left"
    )
    scalars = {
        "loss": loss,
        "accuracy": accuracy,
        "gradient_norm": total.gradient_norm / len(good),
        "learning_rate": learning_rate,
        "steps_per_second": speed,
    }
    return Report(lines, scalars)


def of_validation(step: int, scores: Mapping[str, float], seconds: float, *, is_best: bool) -> str:
    """The line on a validation after `step`."""
    shown = "  ".join(f"{METRICS[name].title} {METRICS[name].shown(score)}" for name, score in scores.items())
    return f"validation at step {step:,}: {shown}  ({seconds:.1f} s){'  best so far' if is_best else ''}"


def of_end(finished: str, metric: str, best: float | None) -> str:
    """The line on the end of training, and on the best value of `training.metric`."""
    title, shown = METRICS[metric].title, "none" if best is None else METRICS[metric].shown(best)
    return f"finished: {finished}; best validation {title} {shown}"
