"""Scores given pairs of a source and a target with a model."""

import numpy as np
import tensorflow as tf

from memattn.data.vocabulary import PAD
from memattn.models.interface import DecodingModel


class Scorer:
    """Computes log-probabilities of given targets; traced once per padded shape."""

    def __init__(self, model: DecodingModel):
        self._model = model
        self._score = tf.function(self._score_batch, autograph=False)

    def __call__(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Returns log-probabilities [B] of target ids [B, T], end of sentence included, given a batch of sources."""
        return self._score(tf.constant(source), tf.constant(target, tf.int32)).numpy()

    def _score_batch(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        log_probs = tf.nn.log_softmax(tf.cast(self._model(source, target), tf.float32))
        tokens = tf.gather(log_probs, target, batch_dims=2)
        return tf.reduce_sum(tf.where(tf.equal(target, PAD), 0.0, tokens), 1)
