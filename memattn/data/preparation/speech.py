"""Prepares a corpus of speech: log-mel features of recordings as the sources, and their text as the targets.

The work is done in `FOLDER.unfinished`, shard by shard: a stopped preparation resumes at the next shard.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import glob
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from memattn import files, reading
from memattn.data import bpe, corpus, features
from memattn.data import tokenizer as tokenizers
from memattn.data.preparation import audio, learning
from memattn.data.preparation.folder import Counts, copy_files, describe_files, make
from memattn.data.text_files import read_lines
from memattn.data.tokenizer import SubwordTokenizer, TextSettings, without_line_breaks
from memattn.errors import ConfigError, DataError, abbreviated, printable

SKIPPED = "skipped.tsv"
_JOURNAL = ".journal.json"  # end of the names of the shards' journals, which a complete corpus does not have
_COUNTS = ("read", "pairs", "seconds", "mixed", "resampled", "vectors", "target_tokens", "unknown_tokens")
_LEAST_DEVIATION = 0.3  # in log-mel units, where even stationary noise has 0.45 or more
_SHOWN = 50  # skipped recordings that are named; the file SKIPPED has all


class Utterance(NamedTuple):
    """A line of a manifest.

    Attributes:
      place: the manifest and the line's number, for messages.
      audio: path of the recording.
      text: what is said.
    """

    place: str
    audio: str
    text: str


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that, with manifests and recordings, determine a prepared corpus of speech.

    Attributes:
      text: form, language and units of the text.
      bpe_units: byte-pair merges of the targets, and units of the vocabulary; None for characters.
      max_seconds: length of the longest recording that is used.
    """

    text: TextSettings
    bpe_units: int | None = None
    max_seconds: float = 40.0


@dataclasses.dataclass
class _Shard:
    """The texts, problems and counts of the recordings of a shard.

    Attributes:
      lengths: numbers of vectors of the recordings that are kept.
      texts: the text of each recording that is kept.
      skipped: a line for each recording that is skipped: its place, its path and the reason, in printable characters,
        separated by tabs.
      stamps: size and time of the last change of each audio file, skipped ones included; None for a missing file.
      seconds: total length of the recordings that are kept.
      mixed: number of kept recordings with several channels.
      resampled: number of kept recordings with another rate than `audio.RATE`.
      sums: sums of the features and of their squares, [2, F].
    """

    lengths: list[int] = dataclasses.field(default_factory=list)
    texts: list[str] = dataclasses.field(default_factory=list)
    skipped: list[str] = dataclasses.field(default_factory=list)
    stamps: list[list[int] | None] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    mixed: int = 0
    resampled: int = 0
    sums: list[list[float]] = dataclasses.field(default_factory=list)


def prepare(
    manifests: dict[str, str],
    settings: Settings,
    folder: str,
    workers: int,
    shared: str | None = None,
    release: dict[str, str | int] | None = None,
) -> dict:
    """Prepares splits in a folder. Returns the manifest of the corpus; a folder that is complete is not touched.

    In the training split, recordings that cannot be used are skipped with a warning. In other splits, they are an
    error, because scores would not be comparable.

    Args:
      manifests: the manifest of each split.
      settings: how to prepare them.
      folder: where the corpus goes.
      workers: number of threads.
      shared: a prepared corpus of speech, whose vocabulary, text settings and statistics are used, whatever `settings`
        says of text and units; None learns them.
      release: what the manifest says about the release that the splits are from; None for other recordings.

    Raises ConfigError, RunError, DataError, OSError, as `parallel.prepare`.
    """
    audio.packages()
    if shared:
        settings = dataclasses.replace(settings, text=_shared_tokenizer(shared).settings, bpe_units=None)

    def write(unfinished: str) -> Counts:
        return _write_files(manifests, settings, unfinished, workers, shared)

    describe = functools.partial(_describe_inputs, manifests, settings, shared)
    types: reading.Types = {("counts", split, name): int for split in manifests for name in _COUNTS}
    return make(folder, describe, write, release=release, types={**types, "files": dict})


def read_manifest(path: str) -> list[Utterance]:
    """Reads a manifest: lines of audio file, tab and text or, in .jsonl or .jsonl.gz, mappings with `audio` and `text`.

    Paths of audio files are relative to the manifest. Raises DataError.
    """
    parse = _parse_json if path.endswith((".jsonl", ".jsonl.gz")) else _parse_tsv
    utterances, folder = [], os.path.dirname(path)
    for number, line in enumerate(read_lines(path), 1):
        place = f"{path}:{number}"
        recording, text = parse(line, place)
        if "\0" in recording:
            raise DataError(f"{place}: {abbreviated(recording)} is not a path: it has a NUL character")
        words = without_line_breaks(text).split()
        utterances.append(Utterance(place, os.path.join(folder, recording), " ".join(words)))
    if not utterances:
        raise DataError(f"{path}: empty; a split needs at least one recording")
    return utterances


def _parse_tsv(line: str, place: str) -> tuple[str, str]:
    columns = line.split("\t")
    if len(columns) != 2 or not columns[0]:
        raise DataError(f"{place}: expected an audio file, a tab and its text, not {abbreviated(line)}")
    return columns[0], columns[1]


def _parse_json(line: str, place: str) -> tuple[str, str]:
    try:
        content = reading.json_value(line)
        reading.check_types(content, {"audio": str, "text": str})
    except ValueError as error:
        raise DataError(f"{place}: {error}; expected audio and text") from error
    return content["audio"], content["text"]


def _describe_inputs(manifests: dict[str, str], settings: Settings, shared: str | None) -> dict:
    """Returns what the manifest says about settings and sources. Raises ConfigError, OSError."""
    sources = {split: describe_files([path]) for split, path in manifests.items()}
    if shared:
        sources["vocabulary_of"] = describe_files(_shared_files(shared))
    return {"settings": dataclasses.asdict(settings), "sources": sources}


def _shared_tokenizer(shared: str) -> SubwordTokenizer:
    """Returns the tokenizer that a corpus shares. Raises ConfigError if it is no corpus of speech, DataError."""
    tokenizer = tokenizers.read(shared)
    has_statistics = os.path.exists(os.path.join(shared, features.STATISTICS))
    if not has_statistics or not isinstance(tokenizer, SubwordTokenizer):
        raise ConfigError(f"--vocabulary_of {shared}: not a corpus that memattn-prepare speech wrote")
    return tokenizer


def _shared_files(shared: str) -> list[str]:
    """Returns the paths of the files that a corpus shares. Raises ConfigError, DataError."""
    names = corpus.VOCABULARY, features.STATISTICS, *_shared_tokenizer(shared).files()
    return [os.path.join(shared, name) for name in names]


def _write_files(
    manifests: dict[str, str], settings: Settings, unfinished: str, workers: int, shared: str | None
) -> Counts:
    """Writes all files but the manifest; returns its counts by split."""
    counts: Counts = {}
    skipped, tokenizer = [], None
    utterances = {split: read_manifest(path) for split, path in manifests.items()}
    train_last = sorted(manifests, key=lambda split: split == "train")  # a broken recording of another ends the work
    shards_of = {
        split: _write_features(split, utterances[split], settings.max_seconds, unfinished, workers)
        for split in train_last
    }
    for split, path in manifests.items():  # the training split first, from which all others take units and statistics
        shards = shards_of[split]
        texts, lengths = ([each for shard in shards for each in getattr(shard, name)] for name in ("texts", "lengths"))
        skipped += [line for shard in shards for line in shard.skipped]
        if not texts:
            raise DataError(f"{path}: no recording is left; {_sentence(skipped[-1])}")
        _write_lines(os.path.join(unfinished, f"{split}.reference"), texts)
        if tokenizer is None:
            if shared:
                copy_files(_shared_files(shared), unfinished)
            else:
                _write_statistics(shards, unfinished)
                _learn_units(texts, settings, unfinished)
            tokenizer = tokenizers.read(unfinished)
            vocabulary = corpus.read_vocabulary(os.path.join(unfinished, corpus.VOCABULARY))
        tokens = [tokenizer.encode(text, "target") for text in texts]
        _write_lines(os.path.join(unfinished, f"{split}.target"), (" ".join(line) for line in tokens))
        counts[split] = {
            "read": len(utterances[split]),
            "pairs": len(texts),
            "seconds": round(sum(shard.seconds for shard in shards)),
            "mixed": sum(shard.mixed for shard in shards),
            "resampled": sum(shard.resampled for shard in shards),
            "vectors": sum(lengths),
            "target_tokens": sum(map(len, tokens)),
            "unknown_tokens": sum(token not in vocabulary.ids for line in tokens for token in line),
        }
    _write_lines(os.path.join(unfinished, SKIPPED), skipped)
    for path in glob.glob(os.path.join(glob.escape(unfinished), f"*{_JOURNAL}")):
        os.remove(path)
    return counts


def _write_lines(path: str, lines: Iterable[str]) -> None:
    files.write(path, "".join(f"{line}\n" for line in lines))


def _write_statistics(shards: list[_Shard], unfinished: str) -> None:
    """Writes the mean and the standard deviation of the features.

    Bands that hold next to nothing in training, such as those above 4 kHz in telephone speech, get an infinite
    deviation, so that they are 0 in all recordings: the model has learned no weights for them.
    """
    sums = np.sum([shard.sums for shard in shards if shard.sums], 0) / sum(sum(shard.lengths) for shard in shards)
    deviation = np.sqrt(np.maximum(sums[1] - sums[0] ** 2, 0))
    features.write_statistics(unfinished, sums[0], np.where(deviation < _LEAST_DEVIATION, np.inf, deviation))


def _learn_units(texts: list[str], settings: Settings, unfinished: str) -> None:
    """Writes text settings, units and vocabulary, learned from the training text."""
    words = Counter(word for text in texts for word in bpe.escape(text).split(" ") if word)
    characters = {character for word in words for character in word}
    units = settings.bpe_units or len(characters) + 1  # and one unit for spaces
    source = os.path.join(unfinished, "train.reference")
    learning.write_units(words, settings.text, units=units, folder=unfinished, source=source)
    for name, content in tokenizers.read_units(unfinished, settings.text).files().items():
        files.write(os.path.join(unfinished, name), content)


def _write_features(
    split: str, utterances: list[Utterance], max_seconds: float, folder: str, workers: int
) -> list[_Shard]:
    """Writes the shards of a split that are missing, and its offsets; warns of recordings that are skipped."""
    shards = []
    with (
        concurrent.futures.ThreadPoolExecutor(workers) as pool,
        tqdm(total=len(utterances), desc=f"features, {split}", unit=" recordings", disable=None) as progress,
    ):
        for number, start in enumerate(range(0, len(utterances), features.SHARD_SIZE)):
            part = utterances[start : start + features.SHARD_SIZE]
            shards.append(_shard(pool, split, number, part, max_seconds, folder))
            progress.update(len(part))
    skipped = [line for shard in shards for line in shard.skipped]
    for line in skipped[:_SHOWN]:
        warnings.warn(f"{_sentence(line)}; skipped", stacklevel=2)
    if len(skipped) > _SHOWN:
        warnings.warn(f"{len(skipped) - _SHOWN:,} more are skipped; {SKIPPED} in the corpus lists all", stacklevel=2)
    features.write_offsets(folder, split, [length for shard in shards for length in shard.lengths])
    return shards


def _shard(
    pool: concurrent.futures.Executor,
    split: str,
    number: int,
    utterances: list[Utterance],
    max_seconds: float,
    folder: str,
) -> _Shard:
    """Writes a shard, unless its journal is of the same audio files; returns the journal. Raises DataError."""
    journal = os.path.join(folder, f"{split}-{number:05}{_JOURNAL}")
    stamps = [_stamp(utterance.audio) for utterance in utterances]
    if os.path.exists(journal):
        with contextlib.suppress(DataError, TypeError):  # damaged, or of another version: written anew
            shard = _Shard(**reading.json_file(journal, {field.name: list for field in dataclasses.fields(_Shard)[:4]}))
            is_written = not shard.lengths or os.path.exists(features.shard_path(folder, split, number))
            if shard.stamps == stamps and is_written:
                return shard
    shard, matrices = _Shard(stamps=stamps), []
    results = pool.map(functools.partial(_read, max_seconds), utterances)
    for utterance, result in zip(utterances, results, strict=True):
        if isinstance(result, str):
            shard.skipped.append("\t".join(map(printable, (utterance.place, utterance.audio, result))))
            continue
        matrices.append(result.features)
        shard.lengths.append(len(result.features))
        shard.texts.append(utterance.text)
        shard.seconds += result.seconds
        shard.mixed += result.is_mixed
        shard.resampled += result.is_resampled
    if shard.skipped and split != "train":
        problem = f"{_sentence(shard.skipped[0])}; {split} is scored as a whole: mend the recording, or remove its line"
        more = f" ({len(shard.skipped) - 1} more among the next lines)" if len(shard.skipped) > 1 else ""
        raise DataError(problem + more)
    if matrices:
        vectors = np.concatenate(matrices, dtype=np.float64)
        shard.sums = [vectors.sum(0).tolist(), (vectors**2).sum(0).tolist()]
        features.write_shard(folder, split, number, matrices)
    elif os.path.exists(path := features.shard_path(folder, split, number)):
        os.remove(path)  # written before its recordings were lost
    files.write(journal, json.dumps(dataclasses.asdict(shard)) + "\n")
    return shard


def _stamp(path: str) -> list[int] | None:
    """Returns size and time of the last change of a file, or None if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_ctime_ns]  # not st_mtime_ns, which a change of permissions leaves as it is


def _read(max_seconds: float, utterance: Utterance) -> audio.Recording | str:
    """Returns the features of a recording, or why it cannot be used."""
    if not utterance.text:
        return "without text"
    try:
        return audio.read(utterance.audio, max_seconds)
    except DataError as error:
        return str(error)


def _sentence(line: str) -> str:
    """Turns a line on a skipped recording, whose columns are separated by tabs, into a message."""
    return line.replace("\t", ": ")
