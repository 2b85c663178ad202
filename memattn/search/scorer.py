"""Scores given pairs of a source and a target with a model."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from memattn.data.batches import streaming_batches
from memattn.data.sentences import Sentences, Sources
from memattn.data.vocabulary import PAD
from memattn.models.interface import DecodingModel
from memattn.search.searcher import StoppedError

_BATCH_SIZE = 16  # sentences of a loss; the logits of all their target positions are in memory at once


class Scorer:
    """Computes log-probabilities of given targets; traced once per padded shape."""

    def __init__(self, model: DecodingModel):
        self._model = model
        self._score = tf.function(self._score_batch, autograph=False)

    def __call__(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Returns log-probabilities [B] of target ids [B, T], end of sentence included, given a batch of sources."""
        return self._score(tf.constant(source), tf.constant(target, tf.int32)).numpy()

    def target_loss(self, source: Sources, target: Sentences, stop: Callable[[], bool] = lambda: False) -> float:
        """Returns the negative log-probability per target token of a corpus, ends of sentences included.

        Raises StoppedError once `stop()`, asked before each batch, is true.
        """
        total = 0.0
        for members, *batch in streaming_batches(source, target, batch_size=_BATCH_SIZE):
            if stop():
                raise StoppedError
            scores = self(*batch)[: len(members)]  # without the rows of padding
            total += float(np.sum(np.where(np.isnan(scores), -np.inf, scores), dtype=np.float64))
        return -total / len(target.ids)

    def _score_batch(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        log_probs = tf.nn.log_softmax(tf.cast(self._model(source, target), tf.float32))
        tokens = tf.gather(log_probs, target, batch_dims=2)
        return tf.reduce_sum(tf.where(tf.equal(target, PAD), 0.0, tokens), 1)
