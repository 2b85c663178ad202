"""Results of a search: the hypotheses of a batch as ids, and of each source as tokens."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from memattn.data.vocabulary import Vocabulary


class Hypotheses(NamedTuple):
    """The n best hypotheses of each source, best first: tensors of TensorFlow, or arrays.

    Attributes:
      tokens: [B, n, L], `end` from each hypothesis' length on.
      lengths: [B, n], tokens without the end of sentence; 0 where there is no hypothesis.
      scores: [B, n], log-probability over length penalty, plus coverage penalty; -inf where there is no hypothesis.
    """

    tokens: Any
    lengths: Any
    scores: Any


@dataclasses.dataclass(frozen=True)
class Translation:
    """The n best hypotheses of one source, best first: their tokens and their scores."""

    hypotheses: list[list[str]]
    scores: list[float]

    @property
    def best(self) -> list[str]:
        """The tokens of the best hypothesis; none if the search has no hypothesis."""
        return self.hypotheses[0] if self.hypotheses else []


def translation(hypotheses: Hypotheses, row: int, vocabulary: Vocabulary) -> Translation:
    """Returns the hypotheses of the source in row `row` of a batch, as tokens."""
    ranks = [k for k in range(hypotheses.scores.shape[1]) if np.isfinite(hypotheses.scores[row, k])]
    tokens = [vocabulary.decode(hypotheses.tokens[row, k, : hypotheses.lengths[row, k]]) for k in ranks]
    return Translation(tokens, [float(hypotheses.scores[row, k]) for k in ranks])
