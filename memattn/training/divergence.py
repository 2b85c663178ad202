"""Makes the errors that end training: numbers are not finite, or nothing was learned."""

import io
import itertools
import os
from typing import Any

import numpy as np

from memattn import files
from memattn.errors import RunError
from memattn.training.opening import OpenRun

_ADVICE = "a smaller training.learning_rate or training.clip_norm may help"


def check_weights(run: OpenRun) -> None:
    """Raises RunError if a weight is not finite on this worker."""
    if not all(np.isfinite(variable.numpy()).all() for variable in run.model.trainable_variables):
        raise _not_finite(run, f"the weights are not finite at step {run.progress.step}")


def skipped_too_often(run: OpenRun, step: int, place: tuple[int, int, int]) -> RunError:
    """Returns the error for the last of too many updates skipped in a row; writes its batches to a file.

    `place` is the epoch, window and batch of the first of them.
    """
    batches = [batch for batch, _ in itertools.islice(run.batches.stream(*place), run.config.training.accumulate)]
    path = os.path.join(run.folder, f"bad_step-{step}.npz")
    arrays: dict[str, Any] = {
        f"{side}_{number}": ids
        for number, batch in enumerate(batches)
        for side, ids in zip(("source", "target"), batch, strict=True)
    }
    content = io.BytesIO()
    np.savez(content, **arrays)
    if run.is_chief:
        files.write(path, content.getvalue())
    return _not_finite(run, f"the loss or its gradient is not finite at step {step}, whose batch is in {path}")


def _not_finite(run: OpenRun, problem: str) -> RunError:
    latest = run.recent.latest_checkpoint or "none"
    return RunError(f"{run.folder}: {problem}; the last checkpoint is {latest}; {_ADVICE}")


def check_end(run: OpenRun) -> None:
    """Raises RunError if the run ended without having learned anything."""
    if run.progress.diverged:
        raise RunError(f"{run.folder}: diverged: {run.progress.diverged}; {_ADVICE}")
