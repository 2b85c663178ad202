"""Lines of standard input, read as they arrive, and the parts that lines are translated in, with word alignments."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from memattn.errors import DataError
from memattn.files import decode_lines

STDIN = "standard input"


def available_lines(descriptor: int, first: int, most: int) -> Iterator[list[str]]:
    """Yields lines of a file descriptor as they arrive: waits for a line, then takes all available, up to a limit.

    The limit doubles each time, from `first` up to `most`, so that the first lines do not wait for hundreds of others.
    Raises DataError for a line that is not UTF-8, after the lines before it; OSError.
    """
    number, limit, rest = 1, first, b""
    while block := os.read(descriptor, 1 << 16):  # does not wait for a full block
        *complete, rest = (rest + block).split(b"\n")
        while complete:
            yield from _decoded(complete[:limit], number)
            number, complete = number + len(complete[:limit]), complete[limit:]
            limit = min(2 * limit, most)
    if rest:
        yield from _decoded([rest], number)


def _decoded(lines: list[bytes], first: int) -> Iterator[list[str]]:
    """Yields a list of the lines; if one is not UTF-8, of those before it, and then raises DataError."""
    texts = (decode_lines(b"%b\n" % line, STDIN, number)[0] for number, line in enumerate(lines, first))
    return until_error(texts, lambda texts: [texts] if texts else [])


def until_error(items: Iterable, work: Callable[[list], Iterable]) -> Iterator:
    """Yields `work(items)` of the items before the first that raises DataError, and then raises that error."""
    done, error = [], None
    try:
        for item in items:
            done.append(item)
    except DataError as problem:
        error = problem
    yield from work(done)
    if error:
        raise error


def in_order(results: Iterable[tuple[int, Any]], number: int) -> Iterator:
    """Yields results 0 to `number` - 1 of pairs (index, result), each as soon as it and all before it are ready."""
    ready: dict[int, Any] = {}
    remaining = iter(results)
    for index in range(number):
        while index not in ready:
            ready.update([next(remaining)])
        yield ready.pop(index)


def too_long(place: str, tokens: list[str], most: int) -> str:
    """Returns the message on the line at a place such as "standard input:7", which has more than `most` tokens."""
    limit = f"the {most:,} that are translated in one piece (decoding.max_source_length)"
    return f"{place}: {len(tokens):,} tokens, more than {limit}"


class Part(NamedTuple):
    """A piece of a source line with a translation.

    Attributes:
      source: tokens [S] of the piece.
      target: tokens [T] of its translation.
      weights: attention weights [T, S] of the source tokens for each target token; empty where none are needed.
      score: score of the translation.
    """

    source: list[str]
    target: list[str]
    weights: np.ndarray
    score: float = 0.0


def word_alignment(parts: list[Part], word_numbers: Callable[[list[str]], list[int]]) -> str:
    """Returns the most attended source word of each target word, as pairs `source-target`, numbered from 0.

    The weight between two words is the sum over their tokens. A word of the source may continue in the next part; the
    target has a blank between parts.

    Args:
      parts: the parts of a line.
      word_numbers: a function of tokens, which returns the number of each token's word.
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
