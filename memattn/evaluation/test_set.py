"""Reads the sources that an evaluation decodes, and their references."""

import dataclasses
import os

import numpy as np

from memattn.data import corpus
from memattn.data import tokenizer as tokenizers
from memattn.data.sentences import Sentences, Sources
from memattn.data.text_files import read_lines
from memattn.data.tokenizer import Tokenizer, without_line_breaks
from memattn.data.vocabulary import Vocabulary, split_words
from memattn.errors import ConfigError, DataError
from memattn.runs.trained import Trained


@dataclasses.dataclass(frozen=True)
class TestSet:
    """Sources to decode, and their references.

    Attributes:
      name: name of the split, or path of the file with the sources.
      source: the sources.
      target: ids of the references, for the loss.
      references: words divided by spaces, BPE undone; each without tabs or ends of lines.
      detokenized_references: the references as ordinary text, likewise in one line.
    """

    name: str
    source: Sources
    target: Sentences
    references: list[str]
    detokenized_references: list[str]


def read_split(trained: Trained, split: str) -> TestSet:
    """Reads a split of the prepared corpus.

    Raises ConfigError if there is no such split, or if the corpus has another vocabulary or other features than the
    run; DataError.
    """
    folder = trained.config.data.path
    corpus.check_folder(folder)
    vocabulary = corpus.read_vocabulary(os.path.join(folder, corpus.VOCABULARY))
    run = trained.runs[0]
    if not run.reads_as(vocabulary, tokenizers.read(folder)):
        problem = f"the vocabulary or BPE of {folder} differs from the run's"
        raise ConfigError(f"data.folder: {problem}; memattn-eval decodes files with --source")
    corpus.check_split(folder, split, corpus.splits(folder))
    test_set = read(folder, split, vocabulary, run.tokenizer, trained.config.data.source)
    if (metadata := test_set.source.metadata()) != run.source_metadata:
        problem = f"the sources of {folder} have {metadata}, not the run's {run.source_metadata}"
        raise ConfigError(f"data.folder: {problem}; prepare it with --vocabulary_of")
    return test_set


def read(folder: str, split: str, vocabulary: Vocabulary, tokenizer: Tokenizer, source: str) -> TestSet:
    """Reads a split of a prepared corpus; `source` is what `data.source` says of its sources. Raises DataError."""
    pairs = corpus.read_corpus(folder, split, vocabulary, source)
    tokenized, detokenized = corpus.read_references(folder, split)
    references = [without_line_breaks(tokenizer.decode(split_words(line))) for line in tokenized]
    return TestSet(split, pairs.source, pairs.target, references, list(map(without_line_breaks, detokenized)))


def read_files(trained: Trained, source: str, target: str) -> TestSet:
    """Reads two files of text (plain or .gz), processed as the training text was.

    Raises ConfigError if the run's sources are no text, DataError.
    """
    trained.check_reads_text("--source")
    source_lines, target_lines = (read_lines(path) for path in (source, target))
    if len(source_lines) != len(target_lines):
        raise DataError(f"{source} has {len(source_lines):,} lines and {target} has {len(target_lines):,}")
    if not source_lines:
        raise DataError(f"{source}: empty; there is nothing to decode")
    source_tokens = [trained.tokenizer.encode(line, "source") for line in source_lines]
    target_tokens = [trained.tokenizer.encode(line, "target") for line in target_lines]
    return TestSet(
        name=source,
        source=Sentences.from_ids([trained.vocabulary.encode(tokens) for tokens in source_tokens]),
        target=Sentences.from_ids([trained.vocabulary.encode(tokens) for tokens in target_tokens]),
        references=[without_line_breaks(trained.tokenizer.decode(tokens)) for tokens in target_tokens],
        detokenized_references=[without_line_breaks(trained.tokenizer.reference(line)) for line in target_lines],
    )


def length_ranges(lengths: np.ndarray, number: int) -> list[tuple[int, int]]:
    """Returns the least and the greatest length of up to `number` groups with about equally many members."""
    ends = np.unique(np.quantile(lengths, np.arange(1, number + 1) / number, method="lower"))
    return list(zip([lengths.min(), *(ends[:-1] + 1)], ends, strict=True))
