"""An ensemble: a model that averages the probabilities of several models."""

import functools
import math
from collections.abc import Iterator

import tensorflow as tf

from memattn.data.lexicon import Selection
from memattn.models.interface import MemoryLength, MemoryRatio, Model, aligns, no_slots


class Ensemble:
    """Decodes with several models at once; an `interface.AligningModel` if all of them have attention.

    Encoded sources, shared tensors, states and attention weights are lists with an item for each model. Logits are
    those of the models' mean probabilities.
    """

    def __init__(self, models: list[Model]):
        self._models = models
        self._aligning_models = [model for model in models if aligns(model)]

    @property
    def has_alignments(self) -> bool:
        return len(self._aligning_models) == len(self._models)

    @property
    def compute_dtype(self) -> str:
        """The type that all models compute in; float32 if they differ."""
        dtypes = {model.compute_dtype for model in self._models}
        return dtypes.pop() if len(dtypes) == 1 else "float32"

    @property
    def vocabulary_size(self) -> int:
        return self._models[0].vocabulary_size

    def token_table(self) -> list:
        return [model.token_table() for model in self._models]

    def encode(self, source: tf.Tensor, seed: tf.Tensor | None = None, jit_compile: bool = False) -> list:
        return [model.encode(source, seed, jit_compile) for model in self._models]

    def state_mask(self, source: tf.Tensor) -> tf.Tensor:
        return self._models[0].state_mask(source)

    def memory_lengths(self, encoded: list, ratio: MemoryRatio) -> Iterator[MemoryLength]:
        each_models = (model.memory_lengths(item, ratio) for model, item in zip(self._models, encoded, strict=True))
        for lengths in zip(*each_models, strict=True):
            bounds = [length.max_steps for length in lengths if length.max_steps is not None]
            max_steps = functools.reduce(tf.minimum, bounds) if bounds else None
            yield MemoryLength([length.encoded for length in lengths], max_steps)

    def start(
        self, encoded: list, num_queries: int, token_table: list, selected: Selection | None = None
    ) -> tuple[list, list]:
        started = [
            model.start(item, num_queries, table, selected)
            for model, item, table in zip(self._models, encoded, token_table, strict=True)
        ]
        return [decoding for decoding, _ in started], [state for _, state in started]

    def step(self, tokens: tf.Tensor, state: list, decoding: list) -> tuple[tf.Tensor, list, list]:
        """Returns logarithms of the average probabilities [B, Q, V or N], attention weights, and the next state."""
        results = [
            model.step(tokens, model_state, model_decoding)
            for model, model_state, model_decoding in zip(self._models, state, decoding, strict=True)
        ]
        logits, weights, states = zip(*results, strict=True)
        return _log_average(logits), list(weights), list(states)

    def attention_weights(self, decoding: list, memory_weights: list) -> tf.Tensor:
        """Returns average weights of the encoder's states [B, Q, P]."""
        parts = zip(self._aligning_models, decoding, memory_weights, strict=True)
        return self._mean([model.attention_weights(*model_parts) for model, *model_parts in parts])

    def alignments(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns average weights of the source positions [B, T, S] under teacher forcing."""
        return self._mean([model.alignments(source, target) for model in self._aligning_models])

    def slot_shares(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns no slots [B, 0, T, S]: those of different models have nothing in common."""
        return no_slots(source, target)

    def __call__(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns logarithms of the average probabilities [B, T, V] under teacher forcing."""
        return _log_average([model(source, target) for model in self._models])

    def _mean(self, weights: list[tf.Tensor]) -> tf.Tensor:
        return tf.reduce_mean(tf.stack([tf.cast(each, self.compute_dtype) for each in weights]), 0)


def _log_average(logits) -> tf.Tensor:
    """Returns the logarithms of the average of the probabilities that each model's logits give."""
    log_probs = tf.stack([tf.nn.log_softmax(tf.cast(model_logits, tf.float32)) for model_logits in logits])
    return tf.reduce_logsumexp(log_probs, 0) - math.log(len(logits))
