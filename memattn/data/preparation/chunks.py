"""Reads a corpus' two files in parallel chunks, and processes the chunks on all cores."""

import collections
import concurrent.futures
import dataclasses
import functools
import itertools
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from memattn import processes, reading
from memattn.data import bpe, corpus
from memattn.data.corpus import SIDES, Sentences
from memattn.data.tokenizer import Text, TextSettings, tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import DataError

CHUNK = 5_000  # pairs


def count(path: str) -> int:
    """Lines of a file. Raises DataError if it is not UTF-8 or a broken archive, OSError."""
    number = 0
    for number, line in enumerate(reading.lines(path), 1):
        corpus.decode_lines(line, path, number)
    return number


def line_lengths(path: str) -> np.ndarray:
    """Characters in each line."""
    return np.fromiter((len(line.decode("utf-8").strip()) for line in reading.lines(path)), np.int32)


class Chunk(NamedTuple):
    """Lines of both files from the line number `first` on."""

    first: int
    paths: tuple[str, str]
    lines: tuple[bytes, bytes]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Lines without their ends. Raises DataError."""
        sides = (
            corpus.decode_lines(lines, path, self.first) for lines, path in zip(self.lines, self.paths, strict=True)
        )
        return zip(*sides, strict=True)


def chunks(source: str, target: str, skip: int = 0) -> Iterator[Chunk]:
    """Both files in chunks of CHUNK lines, without the first `skip` lines."""
    sides = [itertools.islice(reading.lines(path), skip, None) for path in (source, target)]
    for first in itertools.count(skip + 1, CHUNK):
        lines = tuple(b"".join(itertools.islice(side, CHUNK)) for side in sides)
        if not any(lines):
            return
        yield Chunk(first, (source, target), lines)


def count_lines(pool: "Workers", source: str, target: str) -> int:
    """Number of lines of both files. Raises DataError if they differ or are 0."""
    counts = list(pool.map(count, (source, target)))
    if counts[0] != counts[1]:
        place = parting(line_lengths(source), line_lengths(target))
        raise DataError(
            f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}: a line of one must be the "
            f"translation of the same line of the other; by their lengths, they part near line {place:,}"
        )
    if not counts[0]:
        raise DataError(f"{source}: empty; a split needs at least one line")
    return counts[0]


def parting(source: np.ndarray, target: np.ndarray) -> int:
    """The line from which the longer file fits better if it is moved up by its surplus of lines.

    `source` and `target` hold the lines' lengths in characters; their counts differ. Translations have similar lengths
    (Gale & Church, 1993), so the cost of a pair is the logarithm of their ratio.
    """
    longer, shorter = (np.log1p(side) for side in sorted((source, target), key=len, reverse=True))
    surplus = len(longer) - len(shorter)
    as_it_is = np.abs(longer[: len(shorter)] - shorter)
    moved = np.abs(longer[surplus:] - shorter)
    gain = np.concatenate([[0.0], np.cumsum(moved - as_it_is)])  # of keeping the lines before it
    return int(np.argmax(gain)) + 1


class Workers:
    """A pool of processes that returns results in order and never runs far ahead of their reader."""

    def __init__(self, number: int):
        self._number = number
        self._pool = None
        if number > 1:
            context = multiprocessing.get_context("spawn")
            self._pool = concurrent.futures.ProcessPoolExecutor(
                number, context, initializer=_start_worker, initargs=(os.getpid(),)
            )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[[Any], Any], items: Iterable) -> Iterator:
        """Results of the items, in their order. Raises what `work` raises; DataError if a process was killed."""
        if not self._pool:
            yield from map(work, items)
            return
        waiting = collections.deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(work, item))
                if len(waiting) > 2 * self._number:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise DataError("a worker process was killed (out of memory?); the same command resumes") from error


def _start_worker(parent: int) -> None:
    """Leaves Ctrl-C to the parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.end_with(parent)


@dataclasses.dataclass(frozen=True)
class CountWords:
    """Counts words, ready for byte-pair encoding, in a share of a chunk's pairs drawn by seed."""

    settings: TextSettings
    share: float
    seed: int

    def __call__(self, chunk: Chunk) -> Counter[str]:
        languages = (self.settings.source_language, self.settings.target_language)
        tokenizers = [tokenizer(self.settings.form, language) for language in languages]
        random = np.random.RandomState([self.seed, chunk.first])  # noqa: NPY002 (its streams are frozen)
        words = Counter()
        for pair in chunk.pairs():
            if self.share == 1 or random.random_sample() < self.share:
                for tokenize, line in zip(tokenizers, pair, strict=True):
                    words.update(word for word in bpe.escape(tokenize(line)).split(" ") if word)
        return words


class Encoded(NamedTuple):
    """Results of a chunk: sentences of both sides, lines read, pairs dropped."""

    sides: tuple[Sentences, Sentences]
    read: int
    empty: int
    too_long: int


@dataclasses.dataclass(frozen=True)
class Encode:
    """Turns the pairs of a chunk into ids; drops those with an empty side or one of more than `max_length` units."""

    settings: TextSettings
    codes: str
    vocabulary: str
    max_length: int

    def __call__(self, chunk: Chunk) -> Encoded:
        processor, vocabulary = _text(self.settings, self.codes), _vocabulary(self.vocabulary)
        kept, read, empty, too_long = ([], []), 0, 0, 0
        for pair in chunk.pairs():
            read += 1
            tokens = [processor.encode(line, side) for line, side in zip(pair, SIDES, strict=True)]
            if not all(tokens) or not all(line.strip() for line in pair):
                empty += 1
                continue
            if max(map(len, tokens)) > self.max_length:
                too_long += 1
                continue
            for side, units in zip(kept, tokens, strict=True):
                side.append(vocabulary.encode(units))
        return Encoded(tuple(map(corpus.from_ids, kept)), read, empty, too_long)


@dataclasses.dataclass(frozen=True)
class Segment:
    """Turns the pairs of a chunk into lines of tokens, and the targets into lines as people write them."""

    settings: TextSettings
    codes: str

    def __call__(self, chunk: Chunk) -> dict[str, list[str]]:
        processor = _text(self.settings, self.codes)
        pairs = list(chunk.pairs())
        lines = {side: [" ".join(processor.encode(pair[i], side)) for pair in pairs] for i, side in enumerate(SIDES)}
        return {**lines, "reference": [processor.reference(target) for _, target in pairs]}


@functools.lru_cache(1)
def _text(settings: TextSettings, codes: str) -> Text:
    return Text(settings, codes)


@functools.lru_cache(1)
def _vocabulary(tokens: str) -> Vocabulary:
    return Vocabulary.parse(tokens)
