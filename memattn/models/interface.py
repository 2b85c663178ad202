"""The interface of a model: what training, search and evaluation call.

`Seq2Seq` and the Neural GPUs are `Model`s; an `Ensemble` is a `DecodingModel`.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import tensorflow as tf


class Alternative(NamedTuple):
    """One encoding of a batch of sources that a search decodes.

    Attributes:
      encoded: as `DecodingModel.encode` returns it.
      max_steps: [B], the most decoder steps that it allows; None if there is no limit.
    """

    encoded: Any
    max_steps: tf.Tensor | None = None


@runtime_checkable
class DecodingModel(Protocol):
    """A model that a search can decode with: encode once per source, then step by step.

    B is the batch size, S the source length, T the target length, Q the number of hypotheses per source, V the
    vocabulary size.

    Attributes:
      has_alignments: whether the model weighs source positions; if so, it is also an `AligningModel`.
      compute_dtype: type that the model computes in, such as "float32".
      vocabulary_size: V, of source and target.
    """

    has_alignments: bool
    compute_dtype: str
    vocabulary_size: int

    def encode(self, source: tf.Tensor, seed: tf.Tensor | None = None) -> Any:
        """Encodes source ids [B, S], padded with PAD. A `seed` [2] turns on dropout."""

    def alternatives(self, encoded: Any, ratio: float | None) -> Iterable[Alternative]:
        """Yields the encodings that a search tries; of each source's hypotheses, the most probable are kept.

        `ratio` is `decoding.memory_ratio`: it matters to models that decode into a memory of a chosen length.
        """

    def token_table(self) -> Any:
        """Computes what every decoder step looks up for its input tokens; [V, ...] tensors.

        It depends on the weights alone: compute it once, and again when they change.
        """

    def start(
        self, encoded: Any, num_queries: int, token_table: Any, selected: tf.Tensor | None = None
    ) -> tuple[Any, Any]:
        """Returns what all decoder steps of a batch share, and the first state with `num_queries` hypotheses a source.

        With token ids `selected` [N], `step` computes logits of these N tokens only.
        """

    def step(self, tokens: tf.Tensor, state: Any, decoding: Any) -> tuple[tf.Tensor, Any, Any]:
        """Returns logits [B, Q, V or N] of the token after `tokens` [B, Q], attention scores, and the next state."""

    def __call__(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns logits [B, T, V] under teacher forcing."""


@runtime_checkable
class AligningModel(DecodingModel, Protocol):
    """A model that weighs source positions."""

    def attention_weights(self, decoding: Any, scores: Any) -> tf.Tensor:
        """Returns weights of the source positions [B, Q, S] for the scores that `step` returned."""

    def alignments(self, source: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Returns weights of the source positions [B, T, S] for each target token, and each slot's share of them."""


@runtime_checkable
class Model(DecodingModel, Protocol):
    """A model that can be trained; also a Keras model.

    Attributes:
      max_source_length: longest source of the training set, its end of sentence included.
    """

    max_source_length: int

    def decode(self, encoded: Any, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns logits [B, T, V] under teacher forcing, from what `encode` returned."""
