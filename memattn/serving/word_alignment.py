"""Word alignments of translated lines, from the attention weights of their parts."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Part(NamedTuple):
    """A piece of a source line with a translation."""

    source: list[str]  # tokens [S] of the piece
    target: list[str]  # tokens [T] of its translation
    weights: np.ndarray  # attention weights [T, S] of the source tokens for each target token; empty if not needed
    score: float = 0.0  # that of the translation


def word_alignment(parts: list[Part], word_numbers: Callable[[list[str]], list[int]]) -> str:
    """Returns the most attended source word of each target word of a line, as pairs `source-target`, numbered from 0.

    `word_numbers` returns the number of the word of each token. The weight between two words is the sum over their
    tokens. A word of the source may continue in the next part; the target has a blank between parts.
    """
    source_words = np.array(word_numbers([token for part in parts for token in part.source]), np.int64)
    pairs: list[str] = []
    start = 0
    for source, target, weights, _ in parts:
        here = source_words[start : start + len(source)]
        start += len(source)
        if source and target:
            target_words = np.array(word_numbers(target), np.int64)
            between_words = _membership(target_words, weights.dtype).T @ weights @ _membership(here, weights.dtype)
            pairs += [f"{here[0] + word}-{len(pairs) + i}" for i, word in enumerate(between_words.argmax(1))]
    return " ".join(pairs)


def _membership(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Returns a matrix [tokens, words] with 1 where a token belongs to a word; the words' numbers are consecutive."""
    return (words[:, None] == np.arange(words[0], words[-1] + 1)).astype(dtype)
