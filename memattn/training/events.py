"""Writes numbers of training steps for TensorBoard."""

import contextlib
import os
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf

EVENTS = "events"


class Events:
    """A writer of numbers of training steps.

    Attributes:
      failure: error of a write; None if none failed. Training raises it where all workers can end together.
    """

    failure: OSError | tf.errors.OpError | None = None

    @contextlib.contextmanager
    def written_to(self, folder: str) -> Iterator[None]:
        """Writes the numbers that are recorded in this context into a run folder. Outside of it, records are lost."""
        writer = tf.summary.create_file_writer(os.path.join(folder, EVENTS))
        with contextlib.closing(writer), writer.as_default():
            yield

    def record(self, group: str, scalars: Mapping[str, float], step: int) -> None:
        """Records numbers of a step, each as GROUP/NAME."""
        try:
            for name, value in scalars.items():  # NumPy numbers: TensorFlow would cache every Python number
                tf.summary.scalar(f"{group}/{name}", np.float32(value), np.int64(step))
        except (OSError, tf.errors.OpError) as error:
            self.failure = error
