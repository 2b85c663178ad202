"""Reads a prepared corpus and cuts it into bucketed batches whose order is a function of seed and epoch."""

import dataclasses
import os
from collections.abc import Iterator

import numpy as np

from memattn.vocab import PAD, Vocabulary


class DataError(ValueError):
    """A corpus that cannot be used; the message is one line for the user."""


@dataclasses.dataclass(frozen=True)
class Sentences:
    """Sentences of token ids, each with its end of sentence, one after the other in one array."""

    ids: np.ndarray  # int32 [all tokens]
    offsets: np.ndarray  # int64 [sentences + 1]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def padded(self, indices: np.ndarray, rows: int, width: int) -> np.ndarray:
        """[rows, width] int32: the sentences of those indices, PAD in what is left."""
        batch = np.full((rows, width), PAD, np.int32)
        for row, index in enumerate(indices):
            sentence = self[index]
            batch[row, : len(sentence)] = sentence
        return batch


@dataclasses.dataclass(frozen=True)
class Corpus:
    """One split: sources, and the targets that belong to them."""

    source: Sentences
    target: Sentences

    def __len__(self) -> int:
        return len(self.source)


def read_vocabulary(path: str) -> Vocabulary:
    """Reads a vocabulary file. Raises DataError."""
    try:
        return Vocabulary.parse("".join(f"{line}\n" for line in read_lines(path)))
    except ValueError as error:
        raise error if isinstance(error, DataError) else DataError(f"{path}: {error}") from error


def read_corpus(folder: str, split: str, vocabulary: Vocabulary) -> Corpus:
    """Reads `split`.source and `split`.target of a prepared folder. Raises DataError."""
    paths = [os.path.join(folder, f"{split}.{side}") for side in ("source", "target")]
    source, target = (read_lines(path) for path in paths)
    if len(source) != len(target):
        raise DataError(
            f"{paths[0]} has {len(source):,} lines and {paths[1]} has {len(target):,}: "
            "a line of one must be the translation of the same line of the other"
        )
    if not source:
        raise DataError(f"{paths[0]}: empty; a split needs at least one line")
    return Corpus(encode(source, vocabulary), encode(target, vocabulary))


def read_references(folder: str, split: str) -> list[str]:
    """The targets of a split as text, for scoring: words that the vocabulary lacks stay as they are."""
    return [" ".join(line.split()) for line in read_lines(os.path.join(folder, f"{split}.target"))]


def read_lines(path: str) -> list[str]:
    """The lines of a UTF-8 file without their ends. Raises DataError."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}:{line}: not UTF-8 text: byte 0x{content[error.start]:02x}") from error
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def encode(lines: list[str], vocabulary: Vocabulary) -> Sentences:
    """Lines of tokens, divided by white space, as ids."""
    sentences = [vocabulary.encode(line.split()) for line in lines]
    offsets = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum([len(sentence) for sentence in sentences], out=offsets[1:])
    ids = np.fromiter((i for sentence in sentences for i in sentence), np.int32, offsets[-1])
    return Sentences(ids, offsets)


def bucket_widths(lengths: np.ndarray, num_buckets: int) -> np.ndarray:
    """Padded lengths, ascending, at equal quantiles of the lengths: few shapes, little padding."""
    quantiles = np.quantile(lengths, np.arange(1, num_buckets + 1) / num_buckets)
    return np.unique(np.ceil(quantiles).astype(np.int64))


class TrainingBatches:
    """Batches of sentence pairs of like length, in an order that seed and epoch alone decide.

    A pair goes into the bucket of its longer side, to whose width both sides are padded. Each epoch has each pair
    once; the last batch of a bucket is filled up with rows of PAD, which have no part in the loss.
    """

    def __init__(self, corpus: Corpus, *, batch_size: int, num_buckets: int, seed: int):
        self.corpus, self.batch_size, self.seed = corpus, batch_size, seed
        lengths = np.maximum(corpus.source.lengths, corpus.target.lengths)
        self.widths = bucket_widths(lengths, num_buckets)
        self._buckets = np.searchsorted(self.widths, lengths)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Source [B, S] and target [B, T] ids of the batches of an epoch, from its batch `start` on."""
        random = np.random.RandomState([self.seed, epoch])  # noqa: NPY002 (its streams are frozen)
        order = random.permutation(len(self.corpus))
        batches = []
        for bucket, width in enumerate(self.widths):
            members = order[self._buckets[order] == bucket]
            batches += [(members[i : i + self.batch_size], width) for i in range(0, len(members), self.batch_size)]
        for index in random.permutation(len(batches))[start:]:
            members, width = batches[index]
            yield (
                self.corpus.source.padded(members, self.batch_size, width),
                self.corpus.target.padded(members, self.batch_size, width),
            )


def decoding_batches(
    sentences: Sentences, *, batch_size: int, num_buckets: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Indices and padded ids [batch_size, S] of sentences, longest first; short of a batch, rows of PAD fill it."""
    lengths = sentences.lengths
    widths = bucket_widths(lengths, num_buckets)
    order = np.argsort(-lengths, kind="stable")
    for start in range(0, len(order), batch_size):
        members = order[start : start + batch_size]
        width = widths[np.searchsorted(widths, lengths[members[0]])]
        yield members, sentences.padded(members, batch_size, width)
