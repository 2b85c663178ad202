"""Results of a search: the hypotheses of a batch as ids, and of each source as tokens."""

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


class Translation(NamedTuple):
    """The n best hypotheses of one source, best first: their tokens and their scores."""

    hypotheses: list[list[str]]
    scores: list[float]

    @property
    def best(self) -> list[str]:
        """The tokens of the best hypothesis; none if the search has no hypothesis."""
        return self.hypotheses[0] if self.hypotheses else []


def translations(hypotheses: Hypotheses, vocabulary: Vocabulary) -> list[Translation]:
    """Returns the hypotheses of each source of a batch, as tokens."""
    return [
        Translation(
            [vocabulary.decode(ids[:length]) for ids, length in zip(tokens[found], lengths[found], strict=True)],
            scores[found].tolist(),
        )
        for tokens, lengths, scores, found in zip(*hypotheses, np.isfinite(hypotheses.scores), strict=True)
    ]
