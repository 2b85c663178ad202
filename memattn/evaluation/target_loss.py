"""The loss of a model on given targets, each token given the true ones before it."""

from collections.abc import Callable

import numpy as np

from memattn.data.batches import streaming_batches
from memattn.data.sentences import Sentences
from memattn.search.searcher import Scorer

_BATCH = 16  # sentences at once, whose logits for all target positions are in memory


class StoppedError(Exception):
    """The end of work that is not wanted now."""


def target_loss(
    scorer: Scorer, source: Sentences, target: Sentences, stop: Callable[[], bool] = lambda: False
) -> float:
    """Returns the negative log-probability per target token, the ends of sentences included.

    Raises StoppedError once `stop()` is true, which is asked before each batch.
    """
    total = 0.0
    for members, *batch in streaming_batches(source, target, batch_size=_BATCH):
        if stop():
            raise StoppedError
        scores = np.nan_to_num(scorer(*batch)[: len(members)], nan=-np.inf)
        total += float(np.sum(scores, dtype=np.float64))
    return -total / len(target.ids)
