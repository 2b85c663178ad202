"""Prepares a folder for parsing: sentences as sources, their trees as targets, and the vocabulary of both."""

import glob
import os
from collections import Counter

from memattn import files
from memattn.data import trees
from memattn.data.corpus import SIDES, VOCABULARY
from memattn.data.preparation.folder import Counts, make_corpus
from memattn.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from memattn.errors import ConfigError


def prepare(splits: dict[str, list[str]], min_count: int, folder: str) -> Counts:
    """Writes a folder with the trees of each split as text, and their vocabulary; returns the counts of the manifest.

    Words and brackets are tokens. Nothing is written unless all trees can be read.

    Args:
      splits: the files of each split, as names or patterns of names.
      min_count: least number of occurrences in the training split of a word of the vocabulary.
      folder: where the corpus goes; a complete one is not touched.

    Raises ConfigError if there is no such file, DataError if one holds anything but trees, and what `make_corpus`
    raises.
    """
    paths = {split: [path for name in names for path in _matching(name)] for split, names in splits.items()}
    parses = {split: [parse for path in paths[split] for parse in trees.read(path)] for split in splits}

    def write(unfinished: str) -> Counts:
        files.write(os.path.join(unfinished, VOCABULARY), str(_vocabulary(parses["train"], min_count)))
        counts = {}
        for split in splits:
            counts[split] = {"pairs": len(parses[split])}
            for side, sentences in zip(SIDES, zip(*parses[split], strict=True), strict=True):
                files.write_lines(os.path.join(unfinished, f"{split}.{side}"), map(" ".join, sentences))
                counts[split][f"{side}_tokens"] = sum(map(len, sentences))
        return counts

    return make_corpus(folder, {"min_count": min_count}, paths, write)


def _matching(name: str) -> list[str]:
    """Returns the files that have a name or match it as a pattern, in order. Raises ConfigError if there are none."""
    if paths := [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True)):
        return paths
    raise ConfigError(f"{name}: no such file")


def _vocabulary(parses: list[trees.Parse], min_count: int) -> Vocabulary:
    """Returns all tokens of the targets and the frequent words, each most frequent first."""
    targets = Counter(token for parse in parses for token in parse.target)
    words = Counter(word for parse in parses for word in parse.words)
    ranked = [token for token, _ in targets.most_common()]
    ranked += [word for word, count in words.most_common() if count >= min_count]
    return Vocabulary([token for token in dict.fromkeys(ranked) if token not in SPECIAL_TOKENS])
