"""Writes the training split as arrays of token ids, and resumes where it was interrupted."""

import contextlib
import dataclasses
import functools
import json
import os
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from memattn import files, reading
from memattn.data.corpus import PARTS, SIDES, binary_paths
from memattn.data.preparation.appender import Appender
from memattn.data.preparation.chunks import Chunk, read_chunks
from memattn.data.preparation.workers import Workers
from memattn.data.sentences import Sentences
from memattn.data.tokenizer import SubwordTokenizer, TextSettings, cached_tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import DataError

JOURNAL = "journal.json"
JOURNAL_EVERY = 1_000_000  # pairs
_cached_vocabulary = functools.lru_cache(1)(Vocabulary.parse)  # made once per process


class EncodedChunk(NamedTuple):
    """The pairs of a chunk as ids, without those that are dropped.

    Attributes:
      source: the sources.
      target: the targets.
      read: number of pairs in the chunk.
      empty: number of dropped pairs with an empty side.
      too_long: number of dropped pairs with a side that is too long.
    """

    source: Sentences
    target: Sentences
    read: int
    empty: int
    too_long: int


@dataclasses.dataclass(frozen=True)
class EncodeChunk:
    """Turns the pairs of a chunk into ids; drops pairs with an empty side, or one of more than `max_length` units."""

    settings: TextSettings
    codes: str
    vocabulary: str
    max_length: int

    def __call__(self, chunk: Chunk) -> EncodedChunk:
        tokenizer, vocabulary = cached_tokenizer(self.settings, self.codes), _cached_vocabulary(self.vocabulary)
        sources, targets = [], []
        read = empty = too_long = 0
        for source_line, target_line in chunk.pairs():
            read += 1
            source, target = tokenizer.encode(source_line, "source"), tokenizer.encode(target_line, "target")
            if not (source and target and source_line.strip() and target_line.strip()):
                empty += 1
            elif max(len(source), len(target)) > self.max_length:
                too_long += 1
            else:
                sources.append(vocabulary.encode(source))
                targets.append(vocabulary.encode(target))
        return EncodedChunk(Sentences.from_ids(sources), Sentences.from_ids(targets), read, empty, too_long)


@dataclasses.dataclass
class Journal:
    """The state of encoding when the arrays were last written to disk.

    Attributes:
      read: number of pairs read.
      pairs: number of pairs kept.
      empty: number of dropped pairs with an empty side.
      too_long: number of dropped pairs with a side that is too long.
      longest: lengths of the longest source and target, with their ends of sentence.
      sizes: lengths of the arrays: source ids, source offsets, target ids, target offsets.
    """

    read: int = 0
    pairs: int = 0
    empty: int = 0
    too_long: int = 0
    longest: list[int] = dataclasses.field(default_factory=lambda: [0, 0])
    sizes: list[int] = dataclasses.field(default_factory=lambda: [0, 0, 0, 0])

    def add(self, chunk: EncodedChunk) -> None:
        """Counts the pairs of a chunk."""
        self.read += chunk.read
        self.pairs += len(chunk.source)
        self.empty += chunk.empty
        self.too_long += chunk.too_long
        sides = (chunk.source, chunk.target)
        self.longest = [
            max(longest, int(side.lengths().max(initial=0))) for longest, side in zip(self.longest, sides, strict=True)
        ]

    def counts(self) -> dict[str, int]:
        """Returns the counts as the manifest names them."""
        return {
            "read": self.read,
            "pairs": self.pairs,
            "dropped_empty": self.empty,
            "dropped_too_long": self.too_long,
            "source_tokens": self.sizes[0],
            "target_tokens": self.sizes[2],
            "longest_source": self.longest[0],
            "longest_target": self.longest[1],
        }


class _SideArrays(NamedTuple):
    """The arrays of one side of the split."""

    ids: Appender
    offsets: Appender

    def append(self, sentences: Sentences) -> None:
        self.offsets.append(self.ids.length + sentences.offsets[1:])
        self.ids.append(sentences.ids)


def write_encoded(
    pool: Workers,
    paths: tuple[str, str],
    pairs: int,
    tokenizer: SubwordTokenizer,
    vocabulary: Vocabulary,
    max_length: int,
    folder: str,
) -> dict[str, int]:
    """Writes the arrays of the training split into a folder, and returns the counts of the manifest.

    From time to time, the arrays and a journal are written to disk. If there is a journal, encoding resumes from it.

    Args:
      pool: the processes that encode.
      paths: the source and the target file.
      pairs: number of their lines.
      tokenizer: turns lines into units.
      vocabulary: turns units into ids.
      max_length: upper bound on the units of a side, without the end of sentence; pairs with more are dropped.
      folder: where the arrays and the journal go.

    Raises DataError if no pair is left, OSError.
    """
    journal_path = os.path.join(folder, JOURNAL)
    journal = Journal(**reading.json_file(journal_path)) if os.path.exists(journal_path) else Journal()
    dtypes = (np.uint16 if len(vocabulary) <= 1 << 16 else np.int32, np.int64)
    with contextlib.ExitStack() as stack:
        appenders = [
            stack.enter_context(Appender(path, dtype, size))
            for path, dtype, size in zip(_array_paths(folder), dtypes * 2, journal.sizes, strict=True)
        ]
        source, target = _SideArrays(*appenders[:2]), _SideArrays(*appenders[2:])
        if not journal.read:
            for side in (source, target):
                side.offsets.append(np.zeros(1))

        def flush() -> None:
            for appender in appenders:
                appender.flush()
            journal.sizes = [appender.length for appender in appenders]
            files.write(journal_path, json.dumps(dataclasses.asdict(journal)) + "\n")

        work = EncodeChunk(tokenizer.settings, tokenizer.codes, str(vocabulary), max_length)
        flushed = journal.read
        with tqdm(
            total=pairs, initial=flushed, desc="encoding", unit=" pairs", unit_scale=True, disable=None
        ) as progress:
            for chunk in pool.map(work, read_chunks(*paths, skip=flushed)):
                source.append(chunk.source)
                target.append(chunk.target)
                journal.add(chunk)
                progress.update(chunk.read)
                if journal.read - flushed >= JOURNAL_EVERY:
                    flush()
                    flushed = journal.read
        flush()
    if not journal.pairs:
        raise DataError(f"{paths[0]}: no pair is left: {journal.empty:,} are empty, {journal.too_long:,} long")
    return journal.counts()


def _array_paths(folder: str) -> list[str]:
    """Returns the paths of the arrays in the order of `Journal.sizes`."""
    return [binary_paths(folder, "train", side)[part] for side in SIDES for part in PARTS]
