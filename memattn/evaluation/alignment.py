"""Aligns a hypothesis with its source by a model's attention."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from memattn.data.sentences import Sources
from memattn.data.vocabulary import Vocabulary
from memattn.models.interface import AligningModel


class Alignment(NamedTuple):
    """Attention weights between a source and a hypothesis.

    Attributes:
      source: labels of the source positions: tokens, or the numbers of vectors from 0.
      target: tokens.
      weights: attention weights of the source positions at each target token, [T, S].
      slot_weights: each memory slot's share of the weights, [K, T, S]; K = 0 without slots.
    """

    source: list[str]
    target: list[str]
    weights: np.ndarray
    slot_weights: np.ndarray


def align(
    model: AligningModel, vocabulary: Vocabulary, sources: Sources, index: int, hypothesis: list[str]
) -> Alignment:
    """Returns a model's alignment of a hypothesis with the source that has this index."""
    labels, target = sources.labels(index, vocabulary), vocabulary.encode(hypothesis)
    source = sources.padded(np.array([index]), 1, len(labels))
    pair = tf.constant(source), tf.constant([target])
    tokens = [vocabulary.tokens[i] for i in target]
    return Alignment(labels, tokens, model.alignments(*pair)[0].numpy(), model.slot_shares(*pair)[0].numpy())
