"""A prepared corpus on disk: token ids mapped into memory, or text read into it."""

import dataclasses
import os
import zlib
from collections.abc import Collection
from typing import Literal

import numpy as np

from memattn import files, reading
from memattn.data.vocabulary import PAD, Vocabulary, first_problem, split_words
from memattn.errors import ConfigError, DataError

VOCABULARY, MANIFEST = "vocab.txt", "manifest.json"
SIDES = ("source", "target")
_SUMMED = 1 << 20  # numbers of a checksum at once


@dataclasses.dataclass(frozen=True)
class Sentences:
    """Sentences of token ids, each with its end of sentence, one after the other in one array.

    Attributes:
      ids: [all tokens], of any integer type.
      offsets: int64 [sentences + 1].
      path: of the file that ids are read from.
      num_ids: ids must be less, which is checked as they are read; None if that is known.
    """

    ids: np.ndarray
    offsets: np.ndarray
    path: str = ""
    num_ids: int | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def lengths(self, start: int = 0, end: int | None = None) -> np.ndarray:
        """Lengths of the sentences from `start` up to `end`, int64."""
        return np.diff(self.offsets[start : len(self) + 1 if end is None else end + 1])

    def checksum(self) -> int:
        """CRC-32 of all ids and lengths, whatever types they are stored in."""
        found = 0
        for numbers in (self.ids, self.offsets):
            for start in range(0, len(numbers), _SUMMED):
                found = zlib.crc32(np.asarray(numbers[start : start + _SUMMED], "<i8"), found)
        return found

    def between(self, start: int, end: int) -> np.ndarray:
        """Ids of the sentences from `start` up to `end`, one after the other. Raises DataError."""
        return self._checked(self.ids[self.offsets[start] : self.offsets[end]])

    def padded(self, indices: np.ndarray, rows: int, width: int) -> np.ndarray:
        """[rows, width] int32: the sentences of those indices, padded with PAD. Raises DataError."""
        starts, ends = self.offsets[indices], self.offsets[indices + 1]
        lengths = ends - starts
        real = np.arange(width) < lengths[:, None]
        batch = np.full((rows, width), PAD, np.int32)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        batch[: len(indices)][real] = self._checked(self.ids[np.repeat(starts, lengths) + within])
        return batch

    def _checked(self, ids: np.ndarray) -> np.ndarray:
        if self.num_ids and len(ids) and not 0 <= ids.min() <= ids.max() < self.num_ids:
            beyond = ids.min() if ids.min() < 0 else ids.max()
            raise DataError(
                f"{self.path}: damaged: it holds the id {beyond}, and the vocabulary has {self.num_ids:,} tokens; "
                "prepare the corpus again"
            )
        return ids


@dataclasses.dataclass(frozen=True)
class Corpus:
    """One split: sources and their targets."""

    source: Sentences
    target: Sentences

    def __len__(self) -> int:
        return len(self.source)

    def checksum(self) -> str:
        """Of its sentences and their order."""
        return f"{self.source.checksum():08x}{self.target.checksum():08x}"


def read_vocabulary(path: str) -> Vocabulary:
    """Reads a vocabulary file. Raises DataError."""
    lines = read_lines(path)
    if not any(lines):
        raise DataError(f"{path}: empty; it needs at least one token")
    if problem := first_problem(lines):
        raise DataError(f"{path}:{problem[0]}: {problem[1]}")
    return Vocabulary(lines)


def read_corpus(folder: str, split: str, vocabulary: Vocabulary) -> Corpus:
    """Maps a split's binary files into memory if it has any, else reads its text. Raises DataError."""
    if os.path.exists(binary_paths(folder, split, "source")["ids"]):
        _check_vocabulary(folder)
        corpus = Corpus(*(_map(folder, split, side, len(vocabulary)) for side in SIDES))
        paths = [binary_paths(folder, split, side)["offsets"] for side in SIDES]
    else:
        paths = [os.path.join(folder, f"{split}.{side}") for side in SIDES]
        corpus = Corpus(*(encode(read_lines(path), vocabulary) for path in paths))
    if len(corpus.source) != len(corpus.target):
        raise DataError(
            f"{paths[0]} has {len(corpus.source):,} lines and {paths[1]} has {len(corpus.target):,}: "
            "a line of one must be the translation of the same line of the other"
        )
    if not len(corpus):
        raise DataError(f"{paths[0]}: empty; a split needs at least one line")
    return corpus


def check_folder(folder: str) -> None:
    """Raises ConfigError if the folder of a corpus does not exist."""
    if not os.path.isdir(folder):
        raise ConfigError(
            f"data.folder: {folder} is not a folder; it should hold vocab.txt and train.source, ...; "
            "prepare it, or say where it is by --set data.folder=..."
        )


def splits(folder: str) -> list[str]:
    """The splits of a corpus that can be evaluated."""
    return sorted(name.removesuffix(".target") for name in os.listdir(folder) if name.endswith(".target"))


def check_split(folder: str, split: str, known: Collection[str]) -> None:
    """Raises ConfigError if `split` is not one of the `known` splits of a corpus."""
    if split not in known:
        raise ConfigError(f"{folder}: has no split {split}; it has {', '.join(known)}")


def read_references(folder: str, split: str) -> tuple[list[str], list[str]]:
    """For scoring: the tokens of a split's targets, divided by spaces, and the lines as people wrote them.

    A corpus that came as tokens has no other lines. Raises DataError.
    """
    tokens = [" ".join(split_words(line)) for line in read_lines(os.path.join(folder, f"{split}.target"))]
    written = os.path.join(folder, f"{split}.reference")
    lines = read_lines(written) if os.path.exists(written) else tokens
    if len(lines) != len(tokens):
        raise DataError(f"{written} has {len(lines):,} lines for the {len(tokens):,} targets of the split")
    return tokens, lines


def read_lines(path: str, *, pipes: bool = False) -> list[str]:
    """The lines of a UTF-8 file, plain or .gz, without their ends; with `pipes`, of a pipe, too. Raises DataError."""
    try:
        return decode_lines(b"".join(reading.lines(path, pipes=pipes)), path, 1)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error


def decode_lines(content: bytes, path: str, first: int) -> list[str]:
    """Lines of the bytes of a file, from line number `first` on. Raises DataError."""
    try:
        text = content.decode("utf-8-sig" if first == 1 else "utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + first
        raise DataError(f"{path}:{line}: not UTF-8 text: byte 0x{content[error.start]:02x}") from error
    lines = text.split("\n")
    if not content or content.endswith(b"\n"):
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def encode(lines: list[str], vocabulary: Vocabulary) -> Sentences:
    """Ids of lines of tokens, which blanks divide."""
    return from_ids([vocabulary.encode(split_words(line)) for line in lines])


def from_ids(sentences: list[list[int]], dtype: type = np.int32) -> Sentences:
    """Sentences from lists of ids."""
    offsets = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum([len(sentence) for sentence in sentences], out=offsets[1:])
    return Sentences(np.fromiter((i for sentence in sentences for i in sentence), dtype, offsets[-1]), offsets)


def binary_paths(folder: str, split: str, side: str) -> dict[Literal["ids", "offsets"], str]:
    """The files of one side of a split in binary form."""
    return {part: os.path.join(folder, f"{split}.{side}.{part}.npy") for part in ("ids", "offsets")}


def map_array(path: str) -> np.ndarray:
    """Maps one row of whole numbers into memory. Raises DataError."""
    try:
        reading.check_regular(path)
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy passes on errors of all kinds, such as tokenize.TokenError
        raise DataError(f"{path}: not a whole array of NumPy's .npy format: {error}") from error
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{path}: not one row of whole numbers")
    return array


def _map(folder: str, split: str, side: str, num_ids: int) -> Sentences:
    paths = binary_paths(folder, split, side)
    arrays = {part: map_array(path) for part, path in paths.items()}
    sentences = Sentences(**arrays, path=paths["ids"], num_ids=num_ids)
    offsets = sentences.offsets
    fit = len(offsets) and offsets[0] == 0 and offsets[-1] == len(sentences.ids) and (offsets[:-1] <= offsets[1:]).all()
    if not fit:
        raise DataError(f"{paths['offsets']}: does not match its ids; prepare the corpus again")
    return sentences


def _check_vocabulary(folder: str) -> None:
    """Raises DataError unless the vocabulary is the one that the ids were made with."""
    path = os.path.join(folder, MANIFEST)
    if not os.path.exists(path):
        return
    sha256 = ("files", VOCABULARY, "sha256")
    wanted = reading.json_file(path, {sha256: str})["files"][VOCABULARY]["sha256"]
    if files.checksum(os.path.join(folder, VOCABULARY)) != wanted:
        raise DataError(f"{os.path.join(folder, VOCABULARY)}: not the one that {folder} was prepared with")


class Appender:
    """An array in NumPy's .npy format that grows on disk, and can be cut back to an earlier length."""

    def __init__(self, path: str, dtype: type, length: int):
        self._path, self._dtype, self._length = path, np.dtype(dtype), length
        with files.naming(path):
            self._file = open(path, "r+b" if length else "w+b")  # noqa: SIM115 (closed by __exit__)
            self._header()
            self._file.truncate(self._file.tell() + length * self._dtype.itemsize)
            self._file.seek(0, os.SEEK_END)

    def append(self, values: np.ndarray) -> None:
        with files.naming(self._path):
            self._file.write(values.astype(self._dtype).tobytes())
        self._length += len(values)

    def flush(self) -> int:
        """Writes everything so far to disk; returns the array's length."""
        with files.naming(self._path):
            self._file.seek(0)
            self._header()
            self._file.seek(0, os.SEEK_END)
            self._file.flush()
            os.fsync(self._file.fileno())
        return self._length

    def __enter__(self) -> "Appender":
        return self

    def __exit__(self, *_) -> None:
        with files.naming(self._path):
            self._file.close()

    def _header(self) -> None:
        """The header, of one size for every length: NumPy leaves room for an axis to grow."""
        description = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, description)
