"""Prepares a corpus of speech: log-mel features of recordings as the sources, and their text as the targets."""

import concurrent.futures
import dataclasses
import functools
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from memattn import files
from memattn.data import corpus, features
from memattn.data import tokenizer as tokenizers
from memattn.data.preparation import audio
from memattn.data.preparation.chunks import map_in_order
from memattn.data.preparation.folder import Counts, Release, learn_units, make_corpus
from memattn.data.tokenizer import SubwordTokenizer, TextSettings
from memattn.data.units import escaped_words
from memattn.errors import ConfigError, DataError, abbreviated, printable

SKIPPED = "skipped.tsv"
_LEAST_DEVIATION = 0.3  # in log-mel units, where even stationary noise has 0.45 or more
_AHEAD = 200  # recordings that are read before their features are written


class Utterance(NamedTuple):
    """A line of a manifest: a recording, and what is said in it."""

    line: str  # the manifest and the line's number, for messages
    audio: str  # path of the recording
    text: str


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that, with manifests and recordings, determine a prepared corpus of speech."""

    text: TextSettings
    bpe_units: int | None  # byte-pair merges of the targets, and units of the vocabulary; None for characters
    max_seconds: float  # length of the longest recording that is used


@dataclasses.dataclass
class _Recordings:
    """Texts, counts and sums of a split's recordings, as they are read."""

    texts: list[str] = dataclasses.field(default_factory=list)  # what is said in each recording that can be used
    # for each recording left out, its line of the manifest, its path and the reason, separated by tabs
    skipped: list[str] = dataclasses.field(default_factory=list)
    counts: Counter[str] = dataclasses.field(default_factory=Counter)  # for the manifest of the corpus
    seconds: float = 0.0
    # sums of the feature vectors and of their squares, [2, F]
    sums: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros([2, audio.MEL_BANDS]))


def prepare(
    manifests: dict[str, str],
    settings: Settings,
    folder: str,
    workers: int,
    vocabulary_of: str | None = None,
    release: Release | None = None,
) -> Counts:
    """Prepares splits in a folder. A folder that is already complete is not touched.

    In the training split, recordings that cannot be used are skipped with a warning. In other splits, they are an
    error, because scores would not be comparable.

    Args:
      manifests: the manifest of each split.
      settings: how to prepare them.
      folder, release: as `make_corpus` takes them.
      workers: number of threads.
      vocabulary_of: a prepared corpus of speech, whose vocabulary, text settings and statistics are used, whatever
        `settings` says of text and units; None learns them.

    Returns the counts of the corpus' manifest. Raises what `parallel.prepare` raises.
    """
    audio.packages()
    shared: list[str] = []
    if vocabulary_of:
        tokenizer = tokenizers.read(vocabulary_of)
        names = corpus.VOCABULARY, features.STATISTICS, *tokenizer.files()
        shared = [os.path.join(vocabulary_of, name) for name in names]
        if not isinstance(tokenizer, SubwordTokenizer) or not all(map(os.path.exists, shared)):
            raise ConfigError(f"--vocabulary_of {vocabulary_of}: not a corpus that memattn-prepare speech wrote")
        settings = dataclasses.replace(settings, text=tokenizer.settings, bpe_units=None)

    def write(unfinished: str) -> Counts:
        return _write_files(manifests, settings, unfinished, workers, has_vocabulary=bool(shared))

    sources = {split: [path] for split, path in manifests.items()}
    return make_corpus(folder, dataclasses.asdict(settings), sources, write, release, shared)


def read_manifest(path: str) -> list[Utterance]:
    """Reads a manifest: lines of audio file, tab and text or, in .jsonl or .jsonl.gz, mappings with `audio` and `text`.

    Paths of audio files are relative to the manifest. Raises DataError, also for an empty manifest.
    """
    parse = _parse_json if path.endswith((".jsonl", ".jsonl.gz")) else _parse_tsv
    utterances, folder = [], os.path.dirname(path)
    for number, line in enumerate(files.read_lines(path), 1):
        try:
            recording, text = parse(line)
        except ValueError as error:
            raise DataError(f"{path}:{number}: {error}") from error
        utterances.append(Utterance(f"{path}:{number}", os.path.join(folder, recording), " ".join(text.split())))
    corpus.check_line_counts({path: len(utterances)})
    return utterances


def _parse_tsv(line: str) -> tuple[str, str]:
    recording, tab, text = line.partition("\t")
    if not (recording and tab) or "\t" in text:
        raise ValueError(f"expected an audio file, a tab and its text, not {abbreviated(line)}")
    return recording, text


def _parse_json(line: str) -> tuple[str, str]:
    content = files.parse_json(line, {"audio": str, "text": str})
    return content["audio"], content["text"]


def _write_files(
    manifests: dict[str, str], settings: Settings, folder: str, workers: int, *, has_vocabulary: bool
) -> Counts:
    """Writes all files but the manifest; returns its counts by split.

    With `has_vocabulary`, the folder has the vocabulary, units and statistics of another corpus.
    """
    recordings = {}
    utterances = {split: read_manifest(path) for split, path in manifests.items()}
    # Training comes last: in other splits, a bad recording is an error, which ends the work early.
    for split in sorted(manifests, key=lambda split: split == "train"):
        recordings[split] = _Recordings()
        matrices = _read_all(split, utterances[split], settings.max_seconds, workers, recordings[split])
        features.write(folder, split, matrices)
    if not has_vocabulary:
        _write_statistics(recordings["train"], folder)
        _learn_units(recordings["train"].texts, settings, folder)
    tokenizer = tokenizers.read(folder)
    vocabulary = corpus.read_vocabulary(folder)
    counts: Counts = {}
    for split in manifests:
        texts = recordings[split].texts
        tokens = [tokenizer.encode(text, "target") for text in texts]
        files.write_lines(os.path.join(folder, f"{split}.reference"), texts)
        files.write_lines(os.path.join(folder, f"{split}.target"), map(" ".join, tokens))
        counts[split] = {
            "read": len(utterances[split]),
            "pairs": len(texts),
            "seconds": round(recordings[split].seconds),
            **{name: recordings[split].counts[name] for name in ("mixed", "resampled", "vectors")},
            "target_tokens": sum(map(len, tokens)),
            "unknown_tokens": sum(token not in vocabulary.ids for line in tokens for token in line),
        }
    skipped = [line for split in manifests for line in recordings[split].skipped]
    files.write_lines(os.path.join(folder, SKIPPED), skipped)
    return counts


def _write_statistics(train: _Recordings, folder: str) -> None:
    """Writes the mean and the standard deviation of the features.

    Bands that hold next to nothing in training, such as those above 4 kHz in telephone speech, get an infinite
    deviation, so that they are 0 in all recordings: the model has learned no weights for them.
    """
    mean, mean_square = train.sums / train.counts["vectors"]
    deviation = np.sqrt(np.maximum(mean_square - mean**2, 0))
    features.write_statistics(folder, mean, np.where(deviation < _LEAST_DEVIATION, np.inf, deviation))


def _learn_units(texts: list[str], settings: Settings, folder: str) -> None:
    """Writes text settings, units and vocabulary, learned from the training text."""
    words = Counter(word for text in texts for word in escaped_words(text))
    characters = {character for word in words for character in word}
    size = settings.bpe_units or len(characters) + 1  # and one unit for spaces
    for name, content in learn_units(words, settings.text, size).items():
        files.write(os.path.join(folder, name), content)


def _read_all(
    split: str, utterances: list[Utterance], max_seconds: float, workers: int, recordings: _Recordings
) -> Iterator[np.ndarray]:
    """Yields the features of the recordings of a split, and adds what else is known of them to `recordings`.

    Warns if recordings are skipped. Raises DataError for one in a split that is scored, and if none is left.
    """
    skipped = recordings.skipped
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        results = map_in_order(pool, _AHEAD, functools.partial(_read, max_seconds), utterances)
        progress = tqdm(results, f"features, {split}", len(utterances), unit=" recordings", disable=None)
        for utterance, result in zip(utterances, progress, strict=True):
            if isinstance(result, str):
                problem = utterance.line, utterance.audio, result
                if split != "train":
                    advice = f"{split} is scored as a whole: mend the recording, or remove its line"
                    raise DataError(f"{': '.join(problem)}; {advice}")
                skipped.append("\t".join(map(printable, problem)))
                continue
            recordings.texts.append(utterance.text)
            recordings.seconds += result.seconds
            recordings.counts.update(mixed=result.is_mixed, resampled=result.is_resampled, vectors=len(result.features))
            vectors = result.features.astype(np.float64)
            recordings.sums += [vectors.sum(0), (vectors**2).sum(0)]
            yield result.features
    examples = "".join(f", such as {line}" for line in skipped[:1]).replace("\t", ": ")
    if not recordings.texts:
        raise DataError(f"{split}: none of {len(utterances):,} recordings can be used{examples}")
    if skipped:
        number = f"{len(skipped):,} of {len(utterances):,} recordings are skipped"
        warnings.warn(f"{number}{examples}; {SKIPPED} in the corpus lists all", stacklevel=2)


def _read(max_seconds: float, utterance: Utterance) -> audio.Recording | str:
    """Returns the features of a recording, or why it cannot be used."""
    if not utterance.text:
        return "without text"
    try:
        return audio.read(utterance.audio, max_seconds)
    except DataError as error:
        return str(error)
