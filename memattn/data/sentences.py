"""Sources of any kind, sentences of token ids, and pairs of sources and targets."""

import dataclasses
import itertools
import zlib
from typing import Any, Protocol

import numpy as np

from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import PAD, Vocabulary, split_words
from memattn.errors import DataError

PADDING = {"i": PAD, "f": np.nan}  # what fills a batch of ids (ints), and a batch of vectors (floats)
_BLOCK = 1 << 16  # numbers or vectors that are read at a time


class Sources(Protocol):
    """Sources of any kind; the base class of `Sentences` (token ids) and `features.Features` (vectors)."""

    # int64 [sources + 1]: the start of each source in the concatenation of all sources, and the end of the last
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        """Returns a source. Raises DataError."""

    def lengths(self, start: int = 0, end: int | None = None) -> np.ndarray:
        """Returns the lengths of the sources from `start` up to `end`, int64."""
        return np.diff(self.offsets[start : len(self) + 1 if end is None else end + 1])

    def checksum(self) -> int:
        """Returns a CRC-32 of the content."""

    def metadata(self) -> dict[str, Any]:
        """Returns metadata that must be equal in training and test sources, such as the width of the vectors."""
        return {}

    def padded(self, indices: np.ndarray, rows: int, width: int) -> np.ndarray:
        """Returns the sources with these indices as a batch [rows, width, ...], filled by PADDING. Raises DataError."""

    def text(self, index: int, vocabulary: Vocabulary, tokenizer: Tokenizer) -> str:
        """Returns a source as people may read it."""

    def labels(self, index: int, vocabulary: Vocabulary) -> list[str]:
        """Returns a label for each position of a source."""


def are_starts(offsets: np.ndarray, end: int) -> bool:
    """Returns whether offsets rise from 0 to `end`, as the starts of one source or more do."""
    return len(offsets) > 1 and (offsets[0], offsets[-1]) == (0, end) and bool((offsets[1:] > offsets[:-1]).all())


def crc32(*arrays: np.ndarray, dtype: str | None = None) -> int:
    """Returns the CRC-32 of arrays, as numbers of a type if one is given."""
    crc = 0
    for array in arrays:
        for start in range(0, len(array), _BLOCK):
            crc = zlib.crc32(np.ascontiguousarray(array[start : start + _BLOCK], dtype).data, crc)
    return crc


@dataclasses.dataclass(frozen=True)
class Sentences(Sources):
    """Sentences of token ids, each with its end of sentence, one after the other in one array."""

    ids: np.ndarray  # [all tokens], of any integer type; may be mapped from a file
    offsets: np.ndarray  # where each sentence starts in `ids`
    path: str = ""  # the file of the ids, for messages
    num_ids: int | None = None  # size of the vocabulary, against which ids are checked as they are read

    @classmethod
    def from_ids(cls, sentences: list[list[int]]) -> "Sentences":
        """Joins lists of ids."""
        offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        return cls(np.fromiter(itertools.chain.from_iterable(sentences), np.int32, offsets[-1]), offsets)

    @classmethod
    def from_lines(cls, lines: list[str], vocabulary: Vocabulary) -> "Sentences":
        """Encodes lines whose tokens are separated by blanks."""
        return cls.from_ids([vocabulary.encode(split_words(line)) for line in lines])

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def checksum(self) -> int:
        return crc32(self.ids, self.offsets, dtype="<i8")

    def between(self, start: int, end: int) -> np.ndarray:
        """Returns the ids of the sentences from `start` up to `end`, one after the other. Raises DataError."""
        return self._checked(self.ids[self.offsets[start] : self.offsets[end]])

    def padded(self, indices: np.ndarray, rows: int, width: int) -> np.ndarray:
        starts, ends = self.offsets[indices], self.offsets[indices + 1]
        lengths = ends - starts
        is_token = np.arange(width) < lengths[:, None]
        batch = np.full((rows, width), PAD, np.int32)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        batch[: len(indices)][is_token] = self._checked(self.ids[np.repeat(starts, lengths) + within])
        return batch

    def text(self, index: int, vocabulary: Vocabulary, tokenizer: Tokenizer) -> str:
        return tokenizer.decode([vocabulary.decode(self.between(index, index + 1))])[0]

    def labels(self, index: int, vocabulary: Vocabulary) -> list[str]:
        return [vocabulary.tokens[i] for i in self[index]]

    def _checked(self, ids: np.ndarray) -> np.ndarray:
        if self.num_ids and len(ids) and not 0 <= ids.min() <= ids.max() < self.num_ids:
            invalid = ids.min() if ids.min() < 0 else ids.max()
            raise DataError(
                f"{self.path}: damaged: it holds the id {invalid}, and the vocabulary has {self.num_ids:,} tokens; "
                "prepare the corpus again"
            )
        return ids


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Sources, and the target of each."""

    source: Sources
    target: Sentences

    def __len__(self) -> int:
        return len(self.source)

    def checksum(self) -> str:
        """Returns the checksums of both sides, in hexadecimal."""
        return f"{self.source.checksum():08x}{self.target.checksum():08x}"
