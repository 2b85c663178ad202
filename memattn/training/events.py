"""Writes numbers of training steps, and translations and pictures of a sentence, for TensorBoard."""

import contextlib
import os
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf

EVENTS = "events"


class Events:
    """Writer of TensorBoard's events: numbers, texts and pictures, each with its training step.

    Attributes:
      failure: error of a write; None if none failed. Training raises it where all workers can end together.
    """

    failure: OSError | tf.errors.OpError | None = None

    @contextlib.contextmanager
    def written_to(self, folder: str) -> Iterator[None]:
        """Writes what is recorded in this context into a run folder. Outside of it, records are lost."""
        writer = tf.summary.create_file_writer(os.path.join(folder, EVENTS))
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
