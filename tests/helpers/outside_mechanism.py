"""A mechanism outside memattn, `outside_package.looks:Uniform`, for a test to write into a folder."""

import sys
from pathlib import Path

MODULE = '''
"""Attention to the mean of the source, with the settings of another file of the same folder."""

from __future__ import annotations

from typing import Literal

import tensorflow as tf

from memattn import AttentionMechanism
from outside_settings import LOWEST


class Uniform(AttentionMechanism):
    def __init__(self, *, sharpness: float = 1.0, side: Literal["left", "right"] = "left", **kwargs):
        super().__init__(**kwargs)
        self.sharpness, self.side = sharpness, side

    def memorize(self, states, mask):
        return {"values": states, "mask": mask}

    def score(self, query, memory, state=(), seed=None):
        energies = self.sharpness * tf.reduce_sum(memory["values"], -1) + tf.where(memory["mask"], 0.0, LOWEST)
        return tf.repeat(tf.nn.softmax(energies)[:, None], tf.shape(query)[1], 1), state


class Even(Uniform):
    pass


class Nothing:
    pass
'''


def write(folder: Path) -> None:
    """Writes into a folder `outside_package`, and beside it a module that the package imports."""
    (folder / "outside_package").mkdir()
    (folder / "outside_package" / "looks.py").write_text(MODULE, encoding="utf-8")
    (folder / "outside_settings.py").write_text("LOWEST = -1e9\n", encoding="utf-8")


def forget() -> None:
    """Removes the modules of `outside_package` from those that this process has imported."""
    for name in [name for name in sys.modules if name.startswith("outside_")]:
        del sys.modules[name]
