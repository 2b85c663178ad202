"""Predicts how many slots a memory needs, from the contexts of a trained attention.

With K slots, each context is a combination of K vectors. So what is left of a source's contexts c_1 to c_T after
projection on their first K principal directions is a lower bound of what any memory of K slots misses.
"""

import numpy as np
import tensorflow as tf

from memattn.data.vocabulary import PAD
from memattn.models.seq2seq import Seq2Seq


def residuals(model: Seq2Seq, source: np.ndarray, target: np.ndarray, most: int) -> np.ndarray:
    """Returns the share of the contexts' squared length left after projection on k directions, k = 0 to `most`.

    Contexts are those of source ids [B, S] and target ids [B, T] under teacher forcing. The directions are the first k
    principal ones of each source; the shares [most + 1] are of all sources together.
    """
    contexts = model.decode_and_read(model.encode(tf.constant(source)), tf.constant(target))[1].numpy()
    left, total = np.zeros(most + 1), 0.0
    for contexts_of_source, ids in zip(contexts, target, strict=True):
        steps = contexts_of_source[ids != PAD].astype(np.float64)
        squares = np.linalg.svd(steps, compute_uv=False) ** 2
        missed = squares.sum() - np.concatenate([[0.0], np.cumsum(squares)])
        left += np.pad(missed, (0, most + 1))[: most + 1]
        total += squares.sum()
    return np.maximum(left, 0.0) / total


def slots_for(left: np.ndarray, tolerance: float) -> int | None:
    """Returns the fewest slots that leave at most `tolerance` of the contexts; None if `left` has no such number."""
    enough = np.flatnonzero(left <= tolerance)
    return int(enough[0]) if len(enough) else None
