"""Learns the units of words, such as byte-pair encoding, and the vocabulary from the training split."""

import dataclasses
import os
from collections import Counter

import numpy as np
from tqdm import tqdm

from memattn import files
from memattn.data import bpe, spelling
from memattn.data.corpus import VOCABULARY
from memattn.data.preparation.chunks import CHUNK, Chunk, read_chunks
from memattn.data.preparation.workers import Workers
from memattn.data.tokenizer import UNITS, TextSettings, word_tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import DataError

# Default number of BPE units, by the least number of training pairs that it is for. The results on Multi30k (29,000
# pairs) are with 4,000, those of the paper on WMT'17 (0.2 to 52 million) with 16,000. Gowda & May (2020) have the best
# results with 4,000 to 16,000 for 0.5 million pairs, and with 8,000 for one million.
_DEFAULT_UNITS = {0: 4_000, 100_000: 8_000, 1_000_000: 16_000}


@dataclasses.dataclass(frozen=True)
class CountWords:
    """Counts the words, escaped for byte-pair encoding, of a random share of a chunk's pairs."""

    settings: TextSettings
    share: float
    seed: int

    def __call__(self, chunk: Chunk) -> Counter[str]:
        languages = (self.settings.source_language, self.settings.target_language)
        tokenizers = [word_tokenizer(self.settings.form, language) for language in languages]
        random = np.random.RandomState([self.seed, chunk.first])  # noqa: NPY002 (the same in every version of NumPy)
        words: Counter[str] = Counter()
        for pair in chunk.pairs():
            if self.share == 1 or random.random_sample() < self.share:
                for tokenize, line in zip(tokenizers, pair, strict=True):
                    words.update(word for word in bpe.escape(tokenize(line)).split(" ") if word)
        return words


def default_units(pairs: int) -> int:
    """Returns a number of BPE units that suits a number of training pairs."""
    return max(units for least, units in _DEFAULT_UNITS.items() if pairs >= least)


def learn(
    pool: Workers,
    paths: tuple[str, str],
    pairs: int,
    settings: TextSettings,
    *,
    units: int,
    sample: int,
    seed: int,
    folder: str,
) -> None:
    """Writes merges or a dictionary, learned from a training split, and then the vocabulary, into a folder.

    Args:
      pool: the processes that count words.
      paths: the source and the target file.
      pairs: number of their lines.
      settings: form, languages and units of the text.
      units: upper bound on the units of the vocabulary, and on the merges.
      sample: approximate number of pairs to learn from, if there are more.
      seed: seed of the sample.
      folder: where the files go.

    Raises DataError for text that BPE has no merge for, OSError.
    """
    share = min(1.0, sample / pairs)
    words: Counter[str] = Counter()
    with tqdm(total=pairs, desc="counting words", unit=" pairs", unit_scale=True, disable=None) as progress:
        for counts in pool.map(CountWords(settings, share, seed), read_chunks(*paths)):
            words.update(counts)
            progress.update(CHUNK)
    write_units(words, settings, units=units, folder=folder, source=paths[0])


def write_units(words: Counter[str], settings: TextSettings, *, units: int, folder: str, source: str) -> None:
    """Writes merges or a dictionary, learned from counts of escaped words, and then the vocabulary, into a folder.

    `units` is an upper bound on the units of the vocabulary, and on the merges; `source` names the text in errors.
    Raises DataError for text that BPE has no merge for, OSError.
    """
    if settings.units == "spelled":
        learned = spelling.learn(words, units)
        vocabulary = spelling.vocabulary(words, learned, units)
    else:
        learned = bpe.learn(words, units)
        if learned.count("\n") == 1:
            raise DataError(f"{source}: too little text for BPE: no two letters occur together twice")
        vocabulary = bpe.most_frequent_units(words, learned, units)
    files.write(os.path.join(folder, UNITS[settings.units].file), learned)
    files.write(os.path.join(folder, VOCABULARY), str(Vocabulary(vocabulary)))
