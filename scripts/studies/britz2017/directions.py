"""Predicts the number of slots that a memory needs, from the contexts of trained attention.

With K slots, each context is a combination of K vectors. So the residual of a source's contexts c_1 to c_T, after
projection on their first K principal directions, is a lower bound on the error of any memory with K slots.
"""

import numpy as np
import tensorflow as tf

from memattn.data.vocabulary import PAD
from memattn.models.seq2seq import Seq2Seq


def residuals(model: Seq2Seq, source: np.ndarray, target: np.ndarray, most: int) -> np.ndarray:
    """Returns the residual share of the contexts' squared length for k = 0 to `most` principal directions.

    Contexts are computed from source ids [B, S] and target ids [B, T] under teacher forcing. Each source has its
    principal directions; the shares [most + 1] are of all sources together.
    """
    encoded = model.encode(tf.constant(source))
    _, contexts = model.teacher_forced_logits_and_contexts(encoded, tf.constant(target))
    sums, total = np.zeros(most + 1), 0.0
    for contexts_of_source, ids in zip(contexts.numpy(), target, strict=True):
        steps = contexts_of_source[ids != PAD].astype(np.float64)
        squares = np.linalg.svd(steps, compute_uv=False) ** 2
        residual = squares.sum() - np.concatenate([[0.0], np.cumsum(squares)])
        sums += np.pad(residual, (0, most + 1))[: most + 1]
        total += squares.sum()
    return np.maximum(sums, 0.0) / total


def slots_for(shares: np.ndarray, tolerance: float) -> int | None:
    """Returns the fewest slots whose residual share is at most `tolerance`; None if no share is."""
    enough = np.flatnonzero(shares <= tolerance)
    return int(enough[0]) if len(enough) else None
