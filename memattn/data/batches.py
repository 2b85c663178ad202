"""Cuts a corpus of any size into bucketed batches, in an order that is a function of seed and epoch."""

from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np

from memattn.data.sentences import Corpus, Sources
from memattn.errors import DataError

Batch: TypeAlias = tuple[np.ndarray, np.ndarray]  # padded sources and targets
Position: TypeAlias = tuple[int, int, int]  # epoch, window and number of a batch

WINDOW = 32_768  # pairs that are sorted into buckets at a time
WIDE = 256  # padded width from which on streaming batches have fewer rows
_LEAST_BATCHES = 16  # a window grows to hold this many
_SCANNED_AT_ONCE = 1 << 20  # pairs
_SHUFFLE_ROUNDS = 24  # TensorFlow's default of 4 leaves neighbours and epochs correlated


def bucket_widths(histogram: np.ndarray, num_buckets: int) -> np.ndarray:
    """Returns at most `num_buckets` padded widths, ascending, for `histogram[n]` sentences of length n.

    They are equal quantiles of the lengths, or the widths of `_split_widths` if the quantiles make more than 1.5 times
    as many positions, as with a few long sentences among short ones.
    """
    quantiles, split = _quantile_widths(histogram, num_buckets), _split_widths(histogram, num_buckets)
    return split if 1.5 * _positions(histogram, split) < _positions(histogram, quantiles) else quantiles


def _quantile_widths(histogram: np.ndarray, num_buckets: int) -> np.ndarray:
    """Returns widths at equal quantiles of the lengths."""
    num_buckets = min(num_buckets, int(histogram.sum()))  # more buckets would add no width
    ranks = histogram.sum() * np.arange(1, num_buckets + 1) / num_buckets
    return np.unique(np.searchsorted(np.cumsum(histogram), ranks - 1e-9))


def _split_widths(histogram: np.ndarray, num_buckets: int) -> np.ndarray:
    """Returns widths that come from a single bucket by splits, each of which saves as much padding as possible."""
    lengths = np.flatnonzero(histogram)
    counts, widths = np.cumsum(histogram), lengths[-1:]
    while len(widths) < min(num_buckets, len(lengths)):
        bucket = np.searchsorted(widths, lengths)
        narrower = np.append(0, counts[widths])[bucket]  # sentences in narrower buckets
        saved = (counts[lengths] - narrower) * (widths[bucket] - lengths)
        widths = np.sort(np.append(widths, lengths[saved.argmax()]))
    return widths


def _positions(histogram: np.ndarray, widths: np.ndarray) -> int:
    """Returns the number of positions, padding included, of all sentences together."""
    return int((np.diff(np.cumsum(histogram)[widths], prepend=0) * widths).sum())


class TrainingBatches:
    """Batches of sentence pairs of similar length, in an order that depends only on seed and epoch.

    Each epoch takes every pair once, in a new order, a window of WINDOW pairs at a time. In a window, pairs are sorted
    into buckets by their longer side and cut into batches, which are shuffled. Any batch is thus reached in constant
    time, and memory holds one window, however large the corpus is. Pairs of narrower buckets fill the last batch of a
    bucket. Padded lengths are therefore maxima over this and all narrower buckets. Rows of padding, which the loss
    ignores, complete the last batch of a window.

    The corpus may be mapped from disk. The other arguments are options of `DataConfig` and of `TrainingConfig`. Pairs
    longer than `max_source_length` or `max_target_length` are skipped; None skips none.

    Attributes:
      widths: padded widths of sources and targets for each bucket, [buckets, 2]; neither decreases.
      pairs: number of pairs in an epoch.
      longest_source: longest source in an epoch, including its end of sentence.
      window_size: number of pairs in a window, including the skipped ones.

    Raises DataError if no pair is short enough, or a batch of tokens cannot hold the longest pair.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        batch_size: int,
        num_buckets: int,
        seed: int,
        batch_type: Literal["sentences", "tokens"] = "sentences",
        max_source_length: int | None = None,
        max_target_length: int | None = None,
    ):
        self.corpus, self.batch_size, self.batch_type, self.seed = corpus, batch_size, batch_type, seed
        self._limits = [max_source_length or np.inf, max_target_length or np.inf]
        histogram, longest = self._scan()
        self.pairs = int(histogram.sum())
        if not self.pairs:
            raise DataError(
                "no training pair is within data.max_source_length and data.max_target_length, which count the end of "
                "sentence"
            )
        self.widths = longest[bucket_widths(histogram, num_buckets)]
        self._longer = self.widths.max(1)
        self.longest_source = int(self.widths[-1, 0])
        self._rows = [self._rows_for(width) for width in self._longer.tolist()]
        self.window_size = max(WINDOW, _LEAST_BATCHES * max(self._rows))

    def _scan(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns statistics by n, the greater of the source length and the target length of a pair.

        Returns:
          The number of pairs with this n, [lengths].
          The lengths of the longest source and the longest target among the pairs with up to this n, [lengths, 2].
        """
        histogram: np.ndarray = np.zeros(1, np.int64)
        longest: np.ndarray = np.zeros([1, 2], np.int64)
        for sides in self._lengths():
            longer = np.maximum(*sides)
            counts = np.bincount(longer)
            missing = max(0, len(counts) - len(histogram))
            histogram, longest = np.pad(histogram, (0, missing)), np.pad(longest, [(0, missing), (0, 0)])
            histogram[: len(counts)] += counts
            for side, lengths in enumerate(sides):
                np.maximum.at(longest[:, side], longer, lengths)
        return histogram, np.maximum.accumulate(longest)

    def _lengths(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the lengths of sources and targets that are not skipped, block by block."""
        for start in range(0, len(self.corpus), _SCANNED_AT_ONCE):
            end = min(start + _SCANNED_AT_ONCE, len(self.corpus))
            source, target = (side.lengths(start, end) for side in (self.corpus.source, self.corpus.target))
            fits = self._fits(source, target)
            yield source[fits], target[fits]

    def length_regression(self) -> tuple[float, float]:
        """Returns intercept and slope of the linear regression of max(source length, target length) on source length.

        By least squares, on the pairs that are not skipped. Lengths include the end of sentence.
        """
        sums = np.zeros(5, np.int64)  # int64: the same on every machine
        for source, target in self._lengths():
            longer = np.maximum(source, target)
            sums += [len(source), source.sum(), longer.sum(), source @ source, source @ longer]
        pairs, sum_x, sum_y, sum_xx, sum_xy = sums.tolist()
        variance = pairs * sum_xx - sum_x * sum_x
        slope = (pairs * sum_xy - sum_x * sum_y) / variance if variance else 0.0
        return (sum_y - slope * sum_x) / pairs, slope

    def _fits(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        return (source <= self._limits[0]) & (target <= self._limits[1])

    def _rows_for(self, width: int) -> int:
        rows = self.batch_size if self.batch_type == "sentences" else self.batch_size // width
        if not rows:
            raise DataError(
                f"training.batch_size: a batch of {self.batch_size} tokens cannot hold a {width}-token pair; raise it, "
                "or lower data.max_source_length and data.max_target_length"
            )
        return rows

    @property
    def windows(self) -> int:
        """Number of windows in an epoch."""
        return -(-len(self.corpus) // self.window_size)

    def window(self, epoch: int, window: int, start: int = 0) -> Iterator[Batch]:
        """Yields padded sources and targets of the batches of a window of an epoch, from batch `start` on."""
        positions = np.arange(window * self.window_size, min((window + 1) * self.window_size, len(self.corpus)))
        members = self._shuffled(positions, epoch)
        source_lengths, target_lengths = (
            side.offsets[members + 1] - side.offsets[members] for side in (self.corpus.source, self.corpus.target)
        )
        fits = self._fits(source_lengths, target_lengths)
        members, longer = members[fits], np.maximum(source_lengths, target_lengths)[fits]
        buckets = np.searchsorted(self._longer, longer)
        order = np.argsort(-buckets, kind="stable")  # widest first: narrower pairs complete the last batch of a bucket
        batches, cut = [], 0
        while cut < len(order):
            bucket = buckets[order[cut]]
            rows = self._rows[bucket]
            batches.append((members[order[cut : cut + rows]], bucket))
            cut += rows
        random = np.random.RandomState([self.seed, epoch, window])  # noqa: NPY002 (the same in every version of NumPy)
        for index in random.permutation(len(batches))[start:]:
            pairs, bucket = batches[index]
            rows, (source_width, target_width) = self._rows[bucket], self.widths[bucket].tolist()
            yield (
                self.corpus.source.padded(pairs, rows, source_width),
                self.corpus.target.padded(pairs, rows, target_width),
            )

    def stream(self, epoch: int, window: int, batch: int) -> Iterator[tuple[Batch, Position]]:
        """Yields batches without end, from the given one on, each with the position of the next batch."""
        while True:
            for padded in self.window(epoch, window, batch):
                batch += 1
                yield padded, (epoch, window, batch)
            window, batch = window + 1, 0
            if window == self.windows:
                epoch, window = epoch + 1, 0

    def _shuffled(self, positions: np.ndarray, epoch: int) -> np.ndarray:
        """Returns the indices of the pairs at these positions of an epoch, by a permutation that needs no table."""
        import tensorflow as tf  # only here, as batches of lines that are translated need no TensorFlow

        return tf.raw_ops.RandomIndexShuffle(
            index=tf.constant(positions, tf.int64),
            seed=tf.constant([self.seed, epoch, 0], tf.uint32),
            max_index=tf.constant(len(self.corpus) - 1, tf.int64),
            rounds=_SHUFFLE_ROUNDS,
        ).numpy()


def streaming_batches(*sides: Sources, batch_size: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Yields indices and padded batches of sources or, given two sides, of pairs, the shortest first.

    There are few shapes. Widths are powers of two. Rows are 1 or `batch_size`, and proportionally fewer for widths
    above WIDE; rows of padding complete a batch. Within a batch, widths differ at most by a factor of two, so that
    short sentences neither wait for a long one nor form a large batch with it.
    """
    lengths = [side.lengths() for side in sides]
    longer = np.max(lengths, 0)
    order, start = np.argsort(longer, kind="stable"), 0
    while start < len(order):
        widths = [_power_of_two(length) for length in longer[order[start : start + batch_size]]]
        fits = [
            count <= _streaming_rows(width, batch_size) and width <= 2 * widths[0]
            for count, width in enumerate(widths, 1)
        ]
        members = order[start : start + (fits.index(False) if False in fits else len(fits))]
        rows = _streaming_rows(widths[len(members) - 1], batch_size) if len(members) > 1 else 1
        widths = [_power_of_two(side[members].max()) for side in lengths]
        yield members, *(side.padded(members, rows, width) for side, width in zip(sides, widths, strict=True))
        start += len(members)


def _streaming_rows(width: int, batch_size: int) -> int:
    return max(1, batch_size * WIDE // max(WIDE, width))


def _power_of_two(length: int) -> int:
    """Returns the least power of two that is at least `length`, and at least 8."""
    return max(8, 1 << int(length - 1).bit_length())


def decoding_batches(
    sentences: Sources, *, batch_size: int, num_buckets: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields indices and padded batches of `batch_size` sources, longest first; padding completes the last batch."""
    lengths = sentences.lengths()
    widths = bucket_widths(np.bincount(lengths), num_buckets)
    order = np.argsort(-lengths, kind="stable")
    for start in range(0, len(order), batch_size):
        members = order[start : start + batch_size]
        width = widths[np.searchsorted(widths, lengths[members[0]])]
        yield members, sentences.padded(members, batch_size, width)
