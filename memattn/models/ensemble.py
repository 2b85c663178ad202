"""Several models as one: the average of their probabilities."""

import functools
import math
from collections.abc import Iterator

import tensorflow as tf

from memattn.models.interface import Alternative, Model


class Ensemble:
    """Decodes with several models at once.

    Keeps `memattn.models.interface.AligningModel`. Encodings, decodings, states and scores are lists with one item
    per model.
    """

    def __init__(self, models: list[Model]):
        self._models = models

    @property
    def has_alignments(self) -> bool:
        return all(model.has_alignments for model in self._models)

    @property
    def compute_dtype(self) -> str:
        """The type that all models compute in; float32 where they differ."""
        dtypes = {model.compute_dtype for model in self._models}
        return dtypes.pop() if len(dtypes) == 1 else "float32"

    @property
    def vocabulary_size(self) -> int:
        return self._models[0].vocabulary_size

    def token_table(self) -> list[tf.Tensor]:
        return [model.token_table() for model in self._models]

    def encode(self, source: tf.Tensor, seed: tf.Tensor | None = None) -> list:
        return [model.encode(source, seed) for model in self._models]

    def alternatives(self, encoded: list, ratio: float | None) -> Iterator[Alternative]:
        of_models = (model.alternatives(part, ratio) for model, part in zip(self._models, encoded, strict=True))
        for together in zip(*of_models, strict=True):
            limits = [alternative.max_steps for alternative in together if alternative.max_steps is not None]
            shortest = functools.reduce(tf.minimum, limits) if limits else None
            yield Alternative([alternative.encoded for alternative in together], shortest)

    def start(
        self,
        encoded: list,
        num_queries: int,
        token_table: list[tf.Tensor],
        selected: tf.Tensor | None = None,
    ) -> tuple[list, list]:
        each = zip(self._models, encoded, token_table, strict=True)
        started = (model.start(part, num_queries, table, selected) for model, part, table in each)
        decodings, states = zip(*started, strict=True)
        return list(decodings), list(states)

    def step(self, tokens: tf.Tensor, state: list, decodings: list) -> tuple[tf.Tensor, list, list]:
        """Logarithms of the average probabilities [B, Q, V], scores, and the next state."""
        each = zip(self._models, state, decodings, strict=True)
        logits, scores, states = zip(*(model.step(tokens, own, part) for model, own, part in each), strict=True)
        return self._average(logits), list(scores), list(states)

    def attention_weights(self, decodings: list, scores: list) -> tf.Tensor:
        """Average weights of the source positions [B, Q, S]."""
        each = zip(self._models, decodings, scores, strict=True)
        return tf.reduce_mean(tf.stack([model.attention_weights(part, own) for model, part, own in each]), 0)

    def alignments(self, source: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, None]:
        """As `Seq2Seq.alignments`, without single slots."""
        combined = [model.alignments(source, target)[0] for model in self._models]
        return tf.reduce_mean(tf.stack(combined), 0), None

    def __call__(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Logarithms of the average probabilities [B, T, V] under teacher forcing."""
        return self._average([model(source, target) for model in self._models])

    def _average(self, logits) -> tf.Tensor:
        log_probs = tf.stack([tf.nn.log_softmax(tf.cast(one, tf.float32)) for one in logits])
        return tf.reduce_logsumexp(log_probs, 0) - math.log(len(self._models))
