"""Computes the loss of a model under teacher forcing."""

from collections.abc import Callable

import numpy as np

from memattn.data.batches import streaming_batches
from memattn.data.sentences import Sentences, Sources
from memattn.search.scorer import Scorer
from memattn.search.searcher import StoppedError

_BATCH_SIZE = 16  # sentences; the logits of all their target positions are in memory at once


def target_loss(scorer: Scorer, source: Sources, target: Sentences, stop: Callable[[], bool] = lambda: False) -> float:
    """Returns the negative log-probability per target token, ends of sentences included.

    Raises StoppedError once `stop()`, asked before each batch, is true.
    """
    total = 0.0
    for members, *batch in streaming_batches(source, target, batch_size=_BATCH_SIZE):
        if stop():
            raise StoppedError
        scores = scorer(*batch)[: len(members)]  # without the rows of padding
        total += float(np.sum(np.where(np.isnan(scores), -np.inf, scores), dtype=np.float64))
    return -total / len(target.ids)
