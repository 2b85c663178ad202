"""Restores the checkpoints of a run as training starts, and keeps other processes from writing them."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator

import tensorflow as tf

from memattn import files
from memattn.errors import RunError
from memattn.models.interface import Model
from memattn.runs import checkpoints, run_folder
from memattn.runs.checkpoints import Checkpoint
from memattn.training.events import EVENTS
from memattn.training.progress import Progress
from memattn.training.step import TrainingStep


@dataclasses.dataclass(frozen=True)
class RunCheckpoints:
    """The checkpoints of a run.

    Attributes:
      recent: the last checkpoints, from which training resumes: weights, optimizer, progress.
      best: the weights of the best validation.
      restored: path of the checkpoint that the run resumes from; None if there is none that can be read.
    """

    recent: tf.train.CheckpointManager
    best: tf.train.CheckpointManager
    restored: str | None


def restore(folder: str, model: Model, step: TrainingStep, progress: Progress, keep_checkpoints: int) -> RunCheckpoints:
    """Restores the newest readable checkpoint of a run folder, if there is one.

    Raises RunError if checkpoints are listed, but none can be read.
    """
    recent_folder, best_folder = (os.path.join(folder, name) for name in (run_folder.CHECKPOINTS, run_folder.BEST))
    checkpoint = Checkpoint(model, step.optimizer, progress=progress, step=step.state)
    try:
        restored = checkpoints.restore(checkpoint, recent_folder)
    except RunError as error:
        raise RunError(f"{error}; move the folder away to start over") from error
    if not checkpoints.listed(best_folder):  # no best checkpoint, or it was removed: the next validation writes one
        progress.best = None
    recent = checkpoints.manager(checkpoint, recent_folder, keep_checkpoints)
    return RunCheckpoints(recent, checkpoints.manager(Checkpoint(model), best_folder, 1), restored)


@contextlib.contextmanager
def claimed(folder: str, saved: RunCheckpoints) -> Iterator[None]:
    """Locks a run folder against other trainings, and checks that it can be written.

    Raises RunError if another process trains in it or has done so since the run was restored, OSError.
    """
    with run_folder.locked(folder):
        for name in ("", run_folder.CHECKPOINTS, run_folder.BEST, EVENTS):
            path = os.path.join(folder, name) if name else folder
            files.make_folder(path)
        state = tf.train.get_checkpoint_state(saved.recent.directory)
        if state and state.model_checkpoint_path != saved.recent.latest_checkpoint:
            raise RunError(f"{folder}: another training has just resumed it; start again")
        yield
