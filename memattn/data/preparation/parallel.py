"""Prepares a folder with a parallel corpus: checks, byte-pair encoding, one vocabulary, ids."""

import contextlib
import dataclasses
import functools
import os
import warnings
from collections import Counter

import numpy as np
from tqdm import tqdm

from memattn import files
from memattn.data import tokenizer as tokenizers
from memattn.data.corpus import SIDES, VOCABULARY, check_line_counts, read_references, read_vocabulary
from memattn.data.preparation.chunks import CHUNK, Chunk, Map, count_lines, map_in_processes, read_chunks
from memattn.data.preparation.folder import Counts, Release, SentencesWriter, learn_units, make_corpus
from memattn.data.sentences import Sentences
from memattn.data.tokenizer import TextSettings
from memattn.data.units import escaped_words
from memattn.errors import ConfigError, DataError

_SAMPLE = 5_000_000  # pairs that units are learned from; of a larger corpus, about as many are drawn at random

Paths = tuple[str, str]  # source and target file
Splits = dict[str, Paths]  # by the name of the split

# A worker process reads each once from the folder of the corpus.
_tokenizer = functools.lru_cache(1)(tokenizers.read)
_vocabulary = functools.lru_cache(1)(read_vocabulary)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a prepared corpus: with its source files, they determine it."""

    text: TextSettings
    bpe_units: int | None  # units of the vocabulary, and byte-pair merges to learn; None: another corpus gives both
    max_length: int = 200  # units of a side, without the end of sentence; longer training pairs are dropped


def prepare(
    splits: Splits,
    settings: Settings,
    folder: str,
    workers: int,
    vocabulary_of: str | None = None,
    release: Release | None = None,
) -> Counts:
    """Prepares splits in a folder: `train` as arrays of ids, the other splits as text.

    A folder that is already complete is not touched. Returns the counts of the manifest.

    Args:
      splits: the files of each split, plain or .gz.
      settings: how to prepare them.
      folder, release: as `make_corpus` takes them.
      workers: number of processes.
      vocabulary_of: a prepared corpus or a run folder, whose BPE and vocabulary are used; None learns them.

    Raises ConfigError if `vocabulary_of` does not fit, DataError if the text cannot be used, and what `make_corpus`
    raises.
    """

    def write(unfinished: str) -> Counts:
        with map_in_processes(workers) as parallel_map:
            return _write_files(parallel_map, splits, settings, unfinished)

    shared = _shared_files(vocabulary_of, settings.text) if vocabulary_of else []
    return make_corpus(folder, dataclasses.asdict(settings), splits, write, release, shared)


def _shared_files(corpus: str, text: TextSettings) -> list[str]:
    """Returns the paths of the units and the vocabulary of another corpus. Raises ConfigError, DataError."""
    if not os.path.isdir(corpus):
        raise ConfigError(f"--vocabulary_of {corpus}: no such folder")
    theirs = getattr(tokenizers.read(corpus), "settings", None)  # text that came as tokens has no settings
    if theirs != text:
        names = [" ".join(dataclasses.astuple(settings)) if settings else "unprepared" for settings in (theirs, text)]
        raise ConfigError(f"--vocabulary_of {corpus}: its text is {names[0]}, not {names[1]}")
    return [os.path.join(corpus, name) for name in (tokenizers.UNITS[text.units].file, VOCABULARY)]


def _write_files(parallel_map: Map, splits: Splits, settings: Settings, folder: str) -> Counts:
    """Writes all files but the manifest; returns its counts by split."""
    pairs = _count_pairs(parallel_map, splits)
    if settings.bpe_units is None:  # the folder has units and vocabulary of another corpus
        contents = tokenizers.read_units(folder, settings.text).files()
    else:
        words = _count_words(parallel_map, splits["train"], pairs["train"], settings.text)
        contents = learn_units(words, settings.text, settings.bpe_units)
    for name, content in contents.items():
        files.write(os.path.join(folder, name), content)
    counts: Counts = {split: {"pairs": number} for split, number in pairs.items()}
    counts["train"] = _write_train(parallel_map, splits["train"], pairs["train"], settings.max_length, folder)
    for split, paths in splits.items():
        if split != "train":
            work = functools.partial(segment, folder)
            lines = [line for chunk in parallel_map(work, read_chunks(*paths)) for line in chunk]
            for name, column in zip((*SIDES, "reference"), zip(*lines, strict=True), strict=True):
                files.write_lines(os.path.join(folder, f"{split}.{name}"), column)
    if "valid" in splits:
        _warn_of_problems(splits["valid"][1], settings.text, folder)
    return counts


def _count_pairs(parallel_map: Map, splits: Splits) -> dict[str, int]:
    """Returns the number of pairs of each split. Raises DataError if its files differ in this or are empty, OSError."""
    paths = [path for pair in splits.values() for path in pair]
    numbers = tqdm(parallel_map(count_lines, paths), "checking lines", len(paths), unit=" files", disable=None)
    lines = dict(zip(paths, numbers, strict=True))
    for pair in splits.values():
        check_line_counts({path: lines[path] for path in pair})
    return {split: lines[source] for split, (source, _) in splits.items()}


def _count_words(parallel_map: Map, paths: Paths, pairs: int, text: TextSettings) -> Counter[str]:
    """Counts the escaped words of up to about _SAMPLE pairs."""
    work = functools.partial(words_of_chunk, text, min(1.0, _SAMPLE / pairs))
    words: Counter[str] = Counter()
    with tqdm(total=pairs, desc="counting words", unit=" pairs", unit_scale=True, disable=None) as progress:
        for counts in parallel_map(work, read_chunks(*paths)):
            words.update(counts)
            progress.update(CHUNK)
    return words


def words_of_chunk(text: TextSettings, fraction: float, chunk: Chunk) -> Counter[str]:
    """Counts the escaped words of a random fraction of a chunk's pairs."""
    splitters = [tokenizers.word_tokenizer(text.form, code) for code in (text.source_language, text.target_language)]
    random = np.random.RandomState([1, chunk.first])  # noqa: NPY002 (the same in every version of NumPy)
    words: Counter[str] = Counter()
    for pair in zip(chunk.source, chunk.target, strict=True):
        if fraction == 1 or random.random_sample() < fraction:
            for split, line in zip(splitters, pair, strict=True):
                words.update(escaped_words(split(line)))
    return words


def _write_train(parallel_map: Map, paths: Paths, pairs: int, max_length: int, folder: str) -> dict[str, int]:
    """Writes the arrays of the training split, and returns its counts. Raises DataError if no pair is left, OSError."""
    work, vocabulary_size = functools.partial(encode, folder, max_length), len(read_vocabulary(folder))
    counts = Counter(read=0, pairs=0, dropped_empty=0, dropped_too_long=0)
    with (
        contextlib.ExitStack() as stack,
        tqdm(total=pairs, desc="encoding", unit=" pairs", unit_scale=True, disable=None) as progress,
    ):
        writers = [stack.enter_context(SentencesWriter(folder, "train", side, vocabulary_size)) for side in SIDES]
        for chunk_counts, *sides in parallel_map(work, read_chunks(*paths)):
            for writer, sentences in zip(writers, sides, strict=True):
                writer.append(sentences)
            counts.update(chunk_counts)
            progress.update(chunk_counts["read"])
    if not counts["pairs"]:
        empty, too_long = counts["dropped_empty"], counts["dropped_too_long"]
        raise DataError(f"{paths[0]}: no pair is left: {empty:,} are empty, {too_long:,} long")
    for side, writer in zip(SIDES, writers, strict=True):
        counts.update({f"{side}_tokens": writer.tokens, f"longest_{side}": writer.longest})
    return dict(counts)


def encode(folder: str, max_length: int, chunk: Chunk) -> tuple[dict[str, int], Sentences, Sentences]:
    """Turns the pairs of a chunk into ids; drops pairs with an empty side, or one of more than `max_length` units.

    `folder` holds the tokenizer and the vocabulary. Returns counts of pairs, the sources, and the targets.
    """
    tokenizer, vocabulary = _tokenizer(folder), _vocabulary(folder)
    sources, targets, empty, too_long = [], [], 0, 0
    for source_line, target_line in zip(chunk.source, chunk.target, strict=True):
        source, target = tokenizer.encode(source_line, "source"), tokenizer.encode(target_line, "target")
        if not (source and target and source_line.strip() and target_line.strip()):
            empty += 1
        elif max(len(source), len(target)) > max_length:
            too_long += 1
        else:
            sources.append(vocabulary.encode(source))
            targets.append(vocabulary.encode(target))
    read = len(chunk.source)
    counts = {"read": read, "pairs": len(sources), "dropped_empty": empty, "dropped_too_long": too_long}
    return counts, Sentences.from_ids(sources), Sentences.from_ids(targets)


def segment(folder: str, chunk: Chunk) -> list[tuple[str, str, str]]:
    """Returns the source tokens, the target tokens, and the target as people write it, of each pair of a chunk."""
    tokenizer = _tokenizer(folder)
    return [
        (
            " ".join(tokenizer.encode(source, "source")),
            " ".join(tokenizer.encode(target, "target")),
            tokenizer.reference(target),
        )
        for source, target in zip(chunk.source, chunk.target, strict=True)
    ]


def _warn_of_problems(path: str, text: TextSettings, folder: str) -> None:
    """Warns if tokenization changes blanks in the validation targets (`path`), or if BLEU says nothing about them."""
    (tokens, references), tokenizer = read_references(folder, "valid"), _tokenizer(folder)
    for problem in (
        tokenizers.blank_problem(text, references),
        tokenizers.bleu_problem(tokenizer, tokenizer.decode(tokens)),
    ):
        if problem:
            warnings.warn(f"{path}: {problem}", stacklevel=2)
