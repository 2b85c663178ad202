"""Vocabulary selection (Jean et al., 2015; Mi et al., 2016): the target tokens that a source may be translated into.

Logits of other tokens are not computed. Sockeye calls this `--restrict-lexicon`, Marian `--shortlist`.
"""

import itertools
import os
from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np
from tqdm import tqdm

from memattn import files
from memattn.data.corpus import read_corpus
from memattn.data.sentences import Corpus, Sentences
from memattn.data.vocabulary import EOS, PAD, SPECIAL_TOKENS, UNK, Vocabulary, split_words
from memattn.errors import DataError

FILE = "lexicon.tsv"
_ROUNDS = 5  # of expectation maximization
_MOST_PAIRS = 500_000  # sentence pairs to learn from; of a larger corpus, blocks at equal distances are used
_BLOCK = 10_000  # sentence pairs
_MOST_TOKEN_PAIRS = 1 << 24  # about as many are held at a time, in 60 bytes each: long sentences have many
_MOST_SHAPES = 16  # different sizes of a selection


class Selection(NamedTuple):
    """The target tokens that the sources of a batch may be translated into."""

    ids: np.ndarray  # [N], the special ids first; the end is padded with PAD, so that N has few values
    allowed: np.ndarray  # bool [B, N], which of the ids each source may be translated into


class Lexicon:
    """The most probable translations of every token.

    Args:
      translations: [V, k] ids, padded with PAD. The row of the end of sentence holds tokens allowed for every source.
    """

    def __init__(self, translations: np.ndarray):
        self._translations = translations

    def __call__(self, source: np.ndarray) -> Selection:
        """Selects, for each row of source ids [B, S], its tokens and their translations."""
        vocabulary_size = len(self._translations)
        allowed = np.zeros([len(source), vocabulary_size], bool)
        rows = np.arange(len(source))[:, None]
        allowed[rows, source] = True
        allowed[rows, self._translations[source].reshape(len(source), -1)] = True
        allowed[:, PAD] = False
        allowed[:, [EOS, UNK]] = True
        is_selected = np.zeros(vocabulary_size, bool)
        is_selected[: len(SPECIAL_TOKENS)] = True
        is_selected |= allowed.any(0)
        ids = np.flatnonzero(is_selected)
        padding = -len(ids) % -(-vocabulary_size // _MOST_SHAPES)
        return Selection(
            np.pad(ids, (0, padding), constant_values=PAD).astype(np.int32),
            np.pad(allowed[:, ids], ((0, 0), (0, padding))),
        )


def read(path: str, vocabulary: Vocabulary, size: int) -> Lexicon:
    """Reads the `size` most probable translations of each token from a file that `write`, or an aligner, wrote.

    Tokens that the vocabulary lacks are skipped. Raises DataError, OSError.
    """
    ids = {**vocabulary.ids, SPECIAL_TOKENS[EOS]: EOS}
    candidates: dict[int, list[tuple[float, int]]] = {}
    for number, line in enumerate(files.read_lines(path), 1):
        try:
            source, target, probability = split_words(line)
            value = float(probability)
        except ValueError as error:
            raise DataError(f"{path}:{number}: expected a source token, a target token and a probability") from error
        if source in ids and target in vocabulary.ids:
            candidates.setdefault(ids[source], []).append((value, ids[target]))
    if not candidates:
        raise DataError(f"{path}: holds no token of the model's vocabulary")
    size = min(size, max(map(len, candidates.values())))
    translations = np.full([len(vocabulary), size], PAD, np.int32)
    for source_id, pairs in candidates.items():
        best = sorted(pairs, key=lambda pair: -pair[0])[:size]
        translations[source_id, : len(best)] = [target_id for _, target_id in best]
    return Lexicon(translations)


def write(folder: str, vocabulary: Vocabulary, size: int) -> str:
    """Learns a lexicon from a prepared corpus, and writes the `size` most probable translations of each token into it.

    Returns the file's path. Raises DataError, OSError.
    """
    corpus = read_corpus(folder, "train", vocabulary)
    files.make_folder(folder)  # before the learning, as this can fail
    sources, targets, probabilities = learn(corpus, len(vocabulary))
    order = np.lexsort((-probabilities, sources))
    order = order[targets[order] >= len(SPECIAL_TOKENS)]
    ranks = np.arange(len(order)) - np.searchsorted(sources[order], sources[order])
    lines = [
        f"{vocabulary.tokens[sources[i]]}\t{vocabulary.tokens[targets[i]]}\t{probabilities[i]:.3g}"
        for i in order[ranks < size]
    ]
    path = os.path.join(folder, FILE)
    files.write_lines(path, lines)
    return path


def learn(corpus: Corpus, vocabulary_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates translation probabilities p(target | source) by IBM Model 1 (Brown et al., 1993).

    The source's end of sentence serves as the model's empty word.

    Returns:
      Source ids, target ids and probabilities, each [N], of the N token pairs that occur in a sentence pair together.
    """
    codes_seen = np.zeros(0, np.int64)
    for codes, _ in _cooccurrences(corpus, vocabulary_size):
        codes_seen = np.union1d(codes_seen, codes)
    sources = codes_seen // vocabulary_size
    probabilities: np.ndarray = np.ones(len(codes_seen))
    for _ in tqdm(range(_ROUNDS), desc="aligning tokens", unit="round", disable=None):
        counts = np.zeros(len(codes_seen))
        for codes, positions in _cooccurrences(corpus, vocabulary_size):
            entries = np.searchsorted(codes_seen, codes)
            posteriors = probabilities[entries]
            posteriors /= np.bincount(positions, posteriors)[positions]  # over the source tokens of the sentence
            counts += np.bincount(entries, posteriors, len(codes_seen))
        probabilities = counts / np.bincount(sources, counts)[sources]
    return sources, codes_seen % vocabulary_size, probabilities


def _cooccurrences(corpus: Corpus, vocabulary_size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields, part by part, all pairs of a source and a target token of one sentence pair.

    A token pair is coded as source id * V + target id, beside the position of the target token in its part.
    """
    sides = cast(Sentences, corpus.source), corpus.target
    for start in range(0, len(corpus), _BLOCK)[:: -(-len(corpus) // _MOST_PAIRS)]:
        end = min(start + _BLOCK, len(corpus))
        sizes = np.cumsum(np.multiply(*(side.lengths(start, end) for side in sides)))
        parts = start + np.unique(sizes // _MOST_TOKEN_PAIRS, return_index=True)[1]
        for first, last in itertools.pairwise([*parts, end]):
            source, target = (side.between(first, last).astype(np.int64) for side in sides)
            source_lengths, target_lengths = (side.lengths(first, last) for side in sides)
            starts = np.cumsum(source_lengths) - source_lengths
            num_sources = np.repeat(source_lengths, target_lengths)  # source tokens paired with each target token
            positions = np.repeat(np.arange(len(target)), num_sources)
            within = np.arange(len(positions)) - np.repeat(np.cumsum(num_sources) - num_sources, num_sources)
            paired = source[np.repeat(np.repeat(starts, target_lengths), num_sources) + within]
            yield paired * vocabulary_size + target[positions], positions
