"""Word alignments, and replacements of unknown tokens, from the attention weights of a translation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from memattn.data.bpe import SEPARATOR
from memattn.data.vocabulary import SPECIAL_TOKENS, UNK

UNKNOWN = SPECIAL_TOKENS[UNK]


class Part(NamedTuple):
    """A piece of a source line with its translation.

    Attributes:
      source: tokens [S] of the piece.
      target: tokens [T] of its translation.
      weights: attention weights [T, S] of the source tokens for each target token; empty where none are needed.
    """

    source: list[str]
    target: list[str]
    weights: np.ndarray


def as_json(part: Part) -> dict[str, Any]:
    """Returns a part as a mapping that JSON can hold."""
    weights = [[round(float(weight), 4) for weight in row] for row in part.weights]
    return {"source": part.source, "target": part.target, "weights": weights}


def word_alignment(parts: list[Part], word_numbers: Callable[[list[str]], list[int]]) -> str:
    """Returns the most attended source word of each target word, as pairs `source-target`, numbered from 0.

    The weight between two words is the sum over their tokens. If a target word continues in the next part, its first
    part decides.

    Args:
      parts: the parts of a line.
      word_numbers: a function of tokens, which returns the number of each token's word.
    """
    source_words = _numbers([part.source for part in parts], word_numbers)
    target_words = _numbers([part.target for part in parts], word_numbers)
    aligned: dict[int, int] = {}  # source word by target word
    for (source, target, weights), sources, targets in zip(parts, source_words, target_words, strict=True):
        if not (source and target):
            continue
        between_words = _membership(targets, weights.dtype).T @ weights @ _membership(sources, weights.dtype)
        for word, source_word in enumerate(between_words.argmax(1)):
            aligned.setdefault(word + targets[0], source_word + sources[0])
    return " ".join(f"{source_word}-{word}" for word, source_word in aligned.items())


def _numbers(pieces: list[list[str]], word_numbers: Callable[[list[str]], list[int]]) -> list[np.ndarray]:
    """Returns the word number of each token of a line's pieces. A piece begins a word, unless BPE continues one."""
    results, last, start = [], "", 0
    for tokens in pieces:
        if tokens and last:
            start += 1 if not last.endswith(SEPARATOR) else word_numbers([last, tokens[0]])[1]
        numbers = np.array(word_numbers(tokens), np.int64) + start
        results.append(numbers)
        if tokens:
            last, start = tokens[-1], int(numbers[-1])
    return results


def _membership(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Returns a matrix [tokens, words] with 1 where a token belongs to a word; the words' numbers are consecutive."""
    numbers = words - words[0]
    return (numbers[:, None] == np.arange(numbers.max() + 1)).astype(dtype)


def replace_unknown(part: Part, word_numbers: Callable[[list[str]], list[int]]) -> list[str]:
    """Returns the target tokens; an unknown one becomes the source token with the largest weight.

    A source token ends with SEPARATOR if its word continues. In the target, it loses that mark unless the same word
    continues there.

    Args:
      part: a piece with its translation.
      word_numbers: a function of tokens, which returns the number of each token's word.
    """
    source, target, weights = part
    if not source:
        return target
    numbers, attended = word_numbers(source), weights.argmax(1)
    results = []
    for i, (token, place) in enumerate(zip(target, attended, strict=True)):
        if token != UNKNOWN:
            results.append(token)
            continue
        following = target[i + 1] if i + 1 < len(target) else None
        continues = place + 1 < len(source) and numbers[place + 1] == numbers[place]
        if following == UNKNOWN:
            continues &= numbers[attended[i + 1]] == numbers[place] and attended[i + 1] > place
        else:
            continues &= following == source[min(place + 1, len(source) - 1)]
        results.append(source[place] if continues else source[place].removesuffix(SEPARATOR))
    return results
