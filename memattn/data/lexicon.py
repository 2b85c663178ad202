"""Vocabulary selection: the target tokens that a source may be translated into, so that few logits are computed.

As in Jean et al. (2015) and Mi et al. (2016); Sockeye calls it `--restrict-lexicon`, Marian `--shortlist`.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from memattn import files
from memattn.data import corpus
from memattn.data.corpus import Corpus
from memattn.data.vocabulary import EOS, PAD, SPECIAL_TOKENS, UNK, Vocabulary, split_words
from memattn.errors import DataError

FILE = "lexicon.tsv"
_PAIRS = 500_000  # sentence pairs that it is learned on; of a larger corpus, blocks at equal distances
_BLOCK = 10_000


class Selection(NamedTuple):
    """What a batch may be translated into.

    Attributes:
      ids: [N], the special ids first; the rest is padded with PAD to few different sizes.
      allowed: [B, N], which of them each source may be translated into.
    """

    ids: np.ndarray
    allowed: np.ndarray


class Lexicon:
    """The likeliest translations of every token.

    Args:
      translations: [V, k] ids, padded with PAD. The row of the end of sentence is for every source.
    """

    def __init__(self, translations: np.ndarray):
        self._translations = translations

    def __call__(self, source: np.ndarray) -> Selection:
        """Selects for source ids [B, S]: translations of each row's own tokens, and these tokens themselves."""
        vocabulary = len(self._translations)
        own = np.zeros([len(source), vocabulary], bool)
        rows = np.arange(len(source))[:, None]
        own[rows, source] = True
        own[rows, self._translations[source].reshape(len(source), -1)] = True
        own[:, PAD] = False
        own[:, [EOS, UNK]] = True
        chosen = own.any(0)
        chosen[: len(SPECIAL_TOKENS)] = True
        ids = np.flatnonzero(chosen)
        step = -(-vocabulary // 16)  # so that there are at most 16 shapes
        padding = -len(ids) % step
        return Selection(
            np.pad(ids, (0, padding), constant_values=PAD).astype(np.int32), np.pad(own[:, ids], ((0, 0), (0, padding)))
        )


def read(path: str, vocabulary: Vocabulary, size: int) -> Lexicon:
    """Reads a file of `write`, or of any aligner in its form: the `size` likeliest of each token.

    Tokens that the vocabulary lacks are passed over. Raises DataError.
    """
    ids = {**vocabulary.ids, SPECIAL_TOKENS[EOS]: EOS}
    found: dict[int, list[tuple[float, int]]] = {}
    for number, line in enumerate(corpus.read_lines(path), 1):
        source, target, probability = _fields(line, f"{path}:{number}")
        if source in ids and target in vocabulary.ids:
            found.setdefault(ids[source], []).append((probability, ids[target]))
    if not found:
        raise DataError(f"{path}: holds no token of the model's vocabulary")
    size = min(size, max(map(len, found.values())))
    translations = np.full([len(vocabulary), size], PAD, np.int32)
    for source, candidates in found.items():
        best = sorted(candidates, key=lambda one: -one[0])[:size]
        translations[source, : len(best)] = [target for _, target in best]
    return Lexicon(translations)


def _fields(line: str, place: str) -> tuple[str, str, float]:
    try:
        source, target, written = split_words(line)
        probability = float(written)
    except ValueError:
        probability = -1.0
    if not 0 <= probability <= 1:
        raise DataError(f"{place}: expected a source token, a target token and a probability")
    return source, target, probability


def learn(text: Corpus, vocabulary_size: int, rounds: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Translation probabilities p(target | source) of IBM Model 1 (Brown et al., 1993).

    The source's end of sentence is the empty word. Returns sources, targets and probabilities, each [pairs of tokens
    that occur in one sentence pair].
    """
    seen = np.zeros(0, np.int64)
    for codes, _ in _cooccurrences(text, vocabulary_size):
        seen = np.union1d(seen, codes)
    sources = seen // vocabulary_size
    probabilities = np.ones(len(seen))
    for _ in tqdm(range(rounds), desc="aligning tokens", unit="round", disable=None):
        counts = np.zeros(len(seen))
        for codes, places in _cooccurrences(text, vocabulary_size):
            entries = np.searchsorted(seen, codes)
            shares = probabilities[entries]
            shares /= np.bincount(places, shares)[places]  # over the source tokens that may explain a target token
            counts += np.bincount(entries, shares, len(seen))
        probabilities = counts / np.bincount(sources, counts)[sources]
    return sources, seen % vocabulary_size, probabilities


def _cooccurrences(text: Corpus, vocabulary_size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of some sentence pairs at a time, all pairs of tokens: source * V + target, and the target's place."""
    for start in range(0, len(text), _BLOCK)[:: -(-len(text) // _PAIRS)]:
        end = min(start + _BLOCK, len(text))
        sides = text.source, text.target
        source, target = (side.between(start, end).astype(np.int64) for side in sides)
        source_lengths, target_lengths = (side.lengths(start, end) for side in sides)
        starts = np.cumsum(source_lengths) - source_lengths
        words = np.repeat(source_lengths, target_lengths)  # source tokens beside each target token
        places = np.repeat(np.arange(len(target)), words)
        within = np.arange(len(places)) - np.repeat(np.cumsum(words) - words, words)
        codes = source[np.repeat(np.repeat(starts, target_lengths), words) + within] * vocabulary_size + target[places]
        yield codes, places


def write(folder: str, vocabulary: Vocabulary, size: int) -> str:
    """Learns a lexicon of a prepared corpus and writes the `size` likeliest translations of each token.

    Returns the file's path. Raises DataError, OSError.
    """
    sources, targets, probabilities = learn(corpus.read_corpus(folder, "train", vocabulary), len(vocabulary))
    order = np.lexsort((-probabilities, sources))
    order = order[(targets[order] >= len(SPECIAL_TOKENS))]
    ranks = np.arange(len(order)) - np.searchsorted(sources[order], sources[order])
    lines = [
        f"{vocabulary.tokens[sources[i]]}\t{vocabulary.tokens[targets[i]]}\t{probabilities[i]:.3g}\n"
        for i in order[ranks < size]
    ]
    path = os.path.join(folder, FILE)
    files.write(path, "".join(lines))
    return path
