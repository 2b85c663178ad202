"""Results of a search: the hypotheses of a batch as ids, and of each source as tokens."""

from typing import Any, NamedTuple

import numpy as np

from memattn.data.vocabulary import Vocabulary


class Hypotheses(NamedTuple):
    """The n best hypotheses of each source, best first: tensors of TensorFlow, or arrays."""

    tokens: Any  # [B, n, L], `end` from each hypothesis' length on
    lengths: Any  # [B, n], tokens without the end of sentence; 0 where there is no hypothesis
    scores: Any  # [B, n], log-probability over length penalty, plus coverage penalty; -inf where there is no hypothesis


class Translation(NamedTuple):
    """The n best hypotheses of one source, best first."""

    hypotheses: list[list[str]]  # the tokens of each
    scores: list[float]

    @property
    def best(self) -> list[str]:
        """The tokens of the best hypothesis; none if the search has no hypothesis."""
        return self.hypotheses[0] if self.hypotheses else []


def translations(hypotheses: Hypotheses, vocabulary: Vocabulary) -> list[Translation]:
    """Returns the hypotheses of each source of a batch, as tokens."""
    return [
        Translation(
            [vocabulary.decode(ids[:length]) for ids, length in zip(tokens[is_there], lengths[is_there], strict=True)],
            scores[is_there].tolist(),
        )
        for tokens, lengths, scores, is_there in zip(*hypotheses, np.isfinite(hypotheses.scores), strict=True)
    ]
