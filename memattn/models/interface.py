"""The interface of a model, which training, search and evaluation call; and the ensemble of several models.

Shapes: B sources in a batch, S source length, P states of the encoder, T target length, Q hypotheses of a source, V
vocabulary size, N selected tokens. A batch of sources holds ids [B, S] or vectors [B, S, F], padded as `data.sentences`
says. A `seed` [2] turns dropout and other noise of training on; None turns it off.
"""

import abc
import functools
import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from memattn.data.lexicon import Selection
from memattn.options import Options, split

MemoryRatio = float | Literal["estimate"] | None  # `decoding.memory_ratio`


class MemoryLength(NamedTuple):
    """Encoded sources with one length of their memory.

    A search tries each length, and keeps the hypotheses of the one whose best hypothesis scores highest.
    """

    encoded: Any  # as `Model.encode` returns it
    max_steps: tf.Tensor | None = None  # [B], upper bound on decoder steps; None if there is no bound


class Model(tf.keras.Model):
    """Base of models. The constructor makes all weights.

    Args:
      config: the options of the model.
      vocabulary_size: V, shared by source and target, the special ids of `memattn.data.vocabulary` included.
      max_source_length: length of the longest source of the training set; in tokens, the end of sentence counts.
    """

    config_class: type[Options]
    argument_names: tuple[str, ...] = ("vocabulary_size", "max_source_length")  # of the constructor, beside the config

    def __init__(self, config: Any, *, vocabulary_size: int, max_source_length: int, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.vocabulary_size, self.max_source_length = int(vocabulary_size), int(max_source_length)

    def build(self, source_shape=None, target_shape=None):
        self.built = True

    @property
    @abc.abstractmethod
    def has_alignments(self) -> bool:
        """Whether the model weighs source positions, so that it has `attention_weights` and `alignments`."""

    @abc.abstractmethod
    def state_mask(self, source: tf.Tensor) -> tf.Tensor:
        """Returns a mask [B, P] of the states that `encode` makes of sources, false for padding."""

    @abc.abstractmethod
    def encode(self, source: tf.Tensor, seed: tf.Tensor | None = None, jit_compile: bool = False) -> Any:
        """Encodes a padded batch of sources.

        `jit_compile` compiles the loops of LSTMs with XLA, on a CPU. Models without LSTMs ignore it.
        """

    @abc.abstractmethod
    def memory_lengths(self, encoded: Any, ratio: MemoryRatio) -> Iterable[MemoryLength]:
        """Yields the memory lengths that a search tries for what `encode` returned.

        `ratio` is `decoding.memory_ratio`, for active memory. Other models have a single memory length.
        """

    @abc.abstractmethod
    def token_table(self) -> Any:
        """Returns tensors [V, ...] in which every decoder step looks up its input tokens.

        They depend on the weights alone: a search computes them once, and again when the weights have changed.
        """

    @abc.abstractmethod
    def start(
        self, encoded: Any, num_queries: int, token_table: Any, selected: Selection | None = None
    ) -> tuple[Any, Any]:
        """Begins to decode Q = `num_queries` hypotheses of each source; `encoded` is from `encode` or a `MemoryLength`.

        Returns what all decoder steps share, and the initial state, of tensors [B, Q, ...]. With `selected`, `step`
        computes logits of these N tokens alone, and those that a source does not allow are minus infinity.
        """

    @abc.abstractmethod
    def step(self, tokens: tf.Tensor, state: Any, decoding: Any) -> tuple[tf.Tensor, Any, Any]:
        """Runs one decoder step after tokens [B, Q], BOS in the first step; `decoding` is what all steps share.

        Returns logits [B, Q, V or N] of the next token, weights of the memory for `attention_weights`, and the next
        state.
        """

    @abc.abstractmethod
    def attention_weights(self, decoding: Any, memory_weights: Any) -> tf.Tensor:
        """Returns weights of the encoder's states [B, Q, P] for the weights of the memory that `step` returned."""

    @abc.abstractmethod
    def alignments(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns weights of the source positions [B, T, S] for target ids [B, T] under teacher forcing."""

    @abc.abstractmethod
    def slot_shares(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns the alignments of each memory slot [B, K, T, S], whose sum over K are the alignments.

        K is 0 for a memory without slots.
        """

    @abc.abstractmethod
    def teacher_forced_logits(self, encoded: Any, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns logits [B, T, V] under teacher forcing, for what `encode` returned and target ids [B, T]."""

    def get_config(self):
        """Returns the options of the model and the other arguments, all in one mapping."""
        arguments = {name: getattr(self, name) for name in (*self.argument_names, "name")}
        return {**vars(self.config), **arguments, "dtype": self.dtype_policy.name}

    @classmethod
    def from_config(cls, config):
        options, arguments = split(cls.config_class, config)
        return cls(options, **arguments)


class Ensemble:
    """Decodes with several models at once, by the methods of `Model`; it has alignments if all of them have.

    Encoded sources, shared tensors, states and attention weights are lists with an item for each model. Logits are
    those of the models' mean probabilities.
    """

    def __init__(self, models: list[Model]):
        self._models = models

    @property
    def has_alignments(self) -> bool:
        return all(model.has_alignments for model in self._models)

    @property
    def compute_dtype(self) -> str:
        """The type that the first model computes in."""
        return self._models[0].compute_dtype

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
        parts = zip(self._models, decoding, memory_weights, strict=True)
        return _mean([model.attention_weights(*model_parts) for model, *model_parts in parts])

    def alignments(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns average weights of the source positions [B, T, S] under teacher forcing."""
        return _mean([model.alignments(source, target) for model in self._models])

    def __call__(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns logarithms of the average probabilities [B, T, V] under teacher forcing."""
        return _log_average([model(source, target) for model in self._models])


def _mean(weights: list[tf.Tensor]) -> tf.Tensor:
    return tf.reduce_mean(tf.stack([tf.cast(each, tf.float32) for each in weights]), 0)


def _log_average(logits) -> tf.Tensor:
    """Returns the logarithms of the average of the probabilities that each model's logits give."""
    log_probs = tf.stack([tf.nn.log_softmax(tf.cast(model_logits, tf.float32)) for model_logits in logits])
    return tf.reduce_logsumexp(log_probs, 0) - math.log(len(logits))
