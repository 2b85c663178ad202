"""Sources that are sequences of vectors, such as frames of speech, in shards on disk."""

import dataclasses
import functools
import glob
import itertools
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from memattn import files
from memattn.data.sentences import PADDING, Sources, are_starts, crc32
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import DataError

SOURCE_METADATA = ("source_features", "source_statistics")  # names of `Features.metadata`
STATISTICS = "source.statistics.npy"
SHARD_SIZE = 200  # sources


@dataclasses.dataclass(frozen=True)
class Features(Sources):
    """Sources of vectors, one after the other in several arrays; they are normalized as they are read."""

    shards: list[np.ndarray]  # float32 [vectors, F], which may be mapped from files; each source is in one of them
    offsets: np.ndarray  # where each source starts among the vectors of all shards
    mean: np.ndarray  # [F]
    deviation: np.ndarray  # [F]
    path: str = ""  # pattern of the shards' paths, for messages

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        """Number of vectors before each shard."""
        return np.cumsum([0, *map(len, self.shards[:-1])])

    def __getitem__(self, index: int) -> np.ndarray:
        start, end = self.offsets[index : index + 2]
        shard = int(np.searchsorted(self._starts, start, "right")) - 1
        first = self._starts[shard]
        vectors = (self.shards[shard][start - first : end - first] - self.mean) / self.deviation
        if not np.isfinite(vectors).all():
            raise DataError(f"{self.path}: damaged: source {index} holds a number that is not finite")
        return vectors

    def checksum(self) -> int:
        return crc32(self._statistics, *self.shards, self.offsets.astype("<i8"))

    def metadata(self) -> dict[str, Any]:
        """Returns the width of the vectors, and a checksum of what normalizes them."""
        return dict(zip(SOURCE_METADATA, (len(self.mean), f"{crc32(self._statistics):08x}"), strict=True))

    @property
    def _statistics(self) -> np.ndarray:
        return np.stack([self.mean, self.deviation]).astype("<f4")

    def padded(self, indices: np.ndarray, rows: int, width: int) -> np.ndarray:
        batch = np.full((rows, width, len(self.mean)), PADDING["f"], np.float32)
        for row, index in enumerate(indices):
            source = self[index]
            batch[row, : len(source)] = source
        return batch

    def text(self, index: int, vocabulary: Vocabulary, tokenizer: Tokenizer) -> str:
        return f"{self.lengths(index, index + 1)[0]:,} vectors"

    def labels(self, index: int, vocabulary: Vocabulary) -> list[str]:
        return list(map(str, range(self.lengths(index, index + 1)[0])))


def write(folder: str, split: str, sources: Iterable[np.ndarray]) -> None:
    """Writes matrices [S, F] as the sources of a split, in shards, in place of those that are there. Raises OSError."""
    for path in glob.glob(os.path.join(glob.escape(folder), f"{glob.escape(split)}.source.*.npy")):
        os.remove(path)
    matrices, lengths = iter(sources), [0]
    for number in itertools.count():
        shard = list(itertools.islice(matrices, SHARD_SIZE))
        if not shard:
            break
        lengths += map(len, shard)
        vectors = np.concatenate(shard, dtype=np.float32)
        files.write_array(os.path.join(folder, f"{split}.source.{number:05}.npy"), vectors)
    files.write_array(offsets_path(folder, split), np.cumsum(lengths, dtype=np.int64))  # completes the split


def write_statistics(folder: str, mean: np.ndarray, deviation: np.ndarray) -> None:
    """Writes the mean and the standard deviation [F] that normalize all splits of a folder. Raises OSError.

    With an infinite deviation, a number is 0 in all vectors.
    """
    statistics = np.stack([mean, np.maximum(deviation, 1e-5)]).astype(np.float32)
    files.write_array(os.path.join(folder, STATISTICS), statistics)


def read(folder: str, split: str) -> Features:
    """Maps the sources of a split into memory; without statistics, vectors stay as they are. Raises DataError."""
    offsets_file, statistics_path = offsets_path(folder, split), os.path.join(folder, STATISTICS)
    numbers = "source.[0-9][0-9][0-9][0-9][0-9].npy"
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), f"{glob.escape(split)}.{numbers}")))
    if not paths or not os.path.exists(offsets_file):
        raise DataError(f"{offsets_file}: missing; with data.source: features, it and its shards hold the sources")
    offsets, shards = files.read_array(offsets_file, 1, "iu"), [files.read_array(path, 2, "f") for path in paths]
    width = shards[0].shape[1]
    if os.path.exists(statistics_path):
        statistics = files.read_array(statistics_path, 2, "f")
    else:
        statistics = np.stack([np.zeros(width, np.float32), np.ones(width, np.float32)])
    starts = np.cumsum([0, *map(len, shards)])
    starts_fit = are_starts(offsets, starts[-1]) and np.isin(starts, offsets).all()
    widths_fit = statistics.shape == (2, width) and all(shard.shape[1] == width for shard in shards)
    if not (starts_fit and widths_fit):
        raise DataError(f"{offsets_file}: does not match the shards, or these {STATISTICS}; prepare the corpus again")
    return Features(shards, offsets, statistics[0], statistics[1], os.path.join(folder, f"{split}.{numbers}"))


def offsets_path(folder: str, split: str) -> str:
    """Returns the path of the file that says where the sources of a split start."""
    return os.path.join(folder, f"{split}.source.starts.npy")
