"""How many directions the contexts of a trained attention take: how many slots a memory needs, without training one.

A memory of K rows can give any step at most a combination of K vectors. So what is left of a source's contexts c_1 to
c_T after projecting them on their K best directions is the least that any memory of K slots must miss of them.
"""

import numpy as np
import tensorflow as tf

from memattn.data.vocabulary import PAD
from memattn.models.seq2seq import Seq2Seq


def residuals(model: Seq2Seq, source: np.ndarray, target: np.ndarray, most: int) -> np.ndarray:
    """The share of the contexts' squared length that is left after projection on the best k directions, [most + 1].

    Contexts are those of source ids [B, S] and target ids [B, T] under teacher forcing. Each source has directions of
    its own, for k = 0 to `most`; the shares are of all sources together.
    """
    contexts = model.decode_and_read(model.encode(tf.constant(source)), tf.constant(target))[1].numpy()
    left, total = np.zeros(most + 1), 0.0
    for own, ids in zip(contexts, target, strict=True):
        squares = np.linalg.svd(own[ids != PAD].astype(np.float64), compute_uv=False) ** 2
        missed = squares.sum() - np.concatenate([[0.0], np.cumsum(squares)])
        left += np.pad(missed, (0, most + 1))[: most + 1]
        total += squares.sum()
    return np.maximum(left, 0.0) / total


def slots_for(left: np.ndarray, tolerance: float) -> int | None:
    """The fewest slots that leave at most `tolerance` of the contexts; None if more than `residuals` counted."""
    enough = np.flatnonzero(left <= tolerance)
    return int(enough[0]) if len(enough) else None
