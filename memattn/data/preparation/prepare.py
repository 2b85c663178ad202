"""Prepares a parallel corpus: checks, byte-pair encoding, one vocabulary, and the binary form that training maps.

The work is done in `FOLDER.unfinished`, where each file appears whole and is made once; the folder takes its name when
it is whole.
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
from tqdm import tqdm

from memattn import __version__, files, processes, reading
from memattn.config import differences
from memattn.data import bpe, corpus
from memattn.data import tokenizer as text
from memattn.data.preparation import chunks
from memattn.data.tokenizer import TextSettings
from memattn.data.vocabulary import Vocabulary, split_words
from memattn.errors import ConfigError, DataError

_STARTED, _JOURNAL = "settings.json", "journal.json"
_MARK = "memattn"  # in the first, with memattn's version: marks the folder as a preparation's
_OWN = {_STARTED, _JOURNAL, corpus.MANIFEST}
_JOURNAL_EVERY = 1_000_000  # pairs
_COUNTS = ("read", "pairs", "dropped_empty", "dropped_too_long", "source_tokens", "target_tokens")  # of training
_MANIFEST_KINDS = {"settings": dict, "sources": dict, "files": dict}
_MANIFEST_KINDS |= {("counts", "train", name): int for name in _COUNTS}


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a prepared corpus depends on, in addition to its source files.

    Attributes:
      text: form and languages.
      bpe_units: byte-pair merges learned, and units kept in the vocabulary.
      bpe_sample: pairs that they are learned on, drawn by `seed` if the corpus has more; all three are None if
        another corpus gives the merges.
      max_length: units on a side, without the end of sentence; training pairs with more are dropped.
    """

    text: TextSettings
    bpe_units: int | None = 16_000
    bpe_sample: int | None = 5_000_000
    max_length: int = 200
    seed: int | None = 1


def prepare(
    splits: dict[str, tuple[str, str]], settings: Settings, folder: str, workers: int, shared: str | None = None
) -> dict:
    """Prepares the splits, each a source and a target file (plain or .gz), in a folder; returns the manifest.

    `train` becomes binary, the other splits text. `shared` is another prepared corpus, or a run folder, whose BPE and
    vocabulary are used. A folder that is already whole is not touched. Raises ConfigError for a folder that holds
    something else, RunError if another process is preparing it, DataError, OSError.
    """
    folder = os.path.normpath(folder)
    if os.path.exists(folder):
        return _existing(folder, _started(splits, settings, shared))
    with processes.making(folder, "is preparing it; wait, or use another --folder"):
        started = _started(splits, settings, shared)
        if os.path.exists(folder):
            return _existing(folder, started)
        return _make(splits, settings, folder, workers, started)


def _started(splits: dict[str, tuple[str, str]], settings: Settings, shared: str | None) -> dict:
    sources = {split: _facts(paths) for split, paths in splits.items()}
    if shared:
        if not os.path.exists(os.path.join(shared, corpus.VOCABULARY)):
            raise ConfigError(f"--vocabulary_of {shared}: neither a run folder nor a prepared corpus")
        found = text.read(shared)
        if not isinstance(found, text.Text):
            raise ConfigError(f"--vocabulary_of {shared}: its corpus came as tokens, without a BPE")
        if found.settings != settings.text:
            theirs, own = (" ".join(dataclasses.astuple(one)) for one in (found.settings, settings.text))
            raise ConfigError(f"--vocabulary_of {shared}: its text is {theirs}, not {own}")
        paths = [os.path.join(shared, name) for name in (text.CODES, corpus.VOCABULARY)]
        sources["vocabulary_of"] = _facts(paths)
    return {"settings": dataclasses.asdict(settings), "sources": sources}


def _facts(paths: Iterable[str]) -> list[dict[str, str | int]]:
    """What a manifest says of files that a corpus is made from. Raises OSError."""
    return [{"path": path, "bytes": os.path.getsize(path), "sha256": files.checksum(path)} for path in paths]


def _make(splits: dict, settings: Settings, folder: str, workers: int, started: dict) -> dict:
    unfinished = f"{folder}{files.UNFINISHED}"
    _start(unfinished, started)
    for shared in started["sources"].get("vocabulary_of", []):
        with reading.regular(shared["path"]) as file:
            files.write(os.path.join(unfinished, os.path.basename(shared["path"])), file.read())
    with chunks.Workers(workers) as pool:
        checked = tqdm(splits.items(), desc="checking lines", unit=" splits", disable=None)
        lines = {split: chunks.count_lines(pool, *sides) for split, sides in checked}
        codes = _codes(pool, splits["train"], lines["train"], settings, unfinished)
        vocabulary = corpus.read_vocabulary(os.path.join(unfinished, corpus.VOCABULARY))
        processor = text.Text(settings.text, codes)
        for name, content in processor.files().items():
            files.write(os.path.join(unfinished, name), content)
        counts = {"train": _encode(pool, splits["train"], lines["train"], processor, vocabulary, settings, unfinished)}
        for split, sides in splits.items():
            if split != "train":
                counts[split] = {"pairs": lines[split]}
                _segment(pool, split, sides, processor, unfinished)
                if split == "valid":
                    _warn(sides[1], processor, unfinished)
    return _finish(unfinished, folder, started, counts)


def _existing(folder: str, started: dict) -> dict:
    path, wanted = os.path.join(folder, corpus.MANIFEST), _without_paths(started)
    try:
        manifest = reading.json_file(path, _MANIFEST_KINDS)
        found, sizes = _without_paths(manifest), {name: facts["bytes"] for name, facts in manifest["files"].items()}
        differing = differences(found["settings"], wanted["settings"]) or ["other files"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = error if isinstance(error, DataError) else f"{path}: {getattr(error, 'strerror', None) or error!r}"
        raise ConfigError(f"{folder}: exists, but is not a prepared corpus ({problem}); use another") from error
    if found != wanted:
        raise ConfigError(
            f"{folder}: holds another corpus ({', '.join(map(str, differing))}); use another folder, or remove it"
        )
    for name, size in sizes.items():
        own = os.path.join(folder, name)
        if not os.path.exists(own) or os.path.getsize(own) != size:
            raise ConfigError(f"{own}: missing or changed; remove {folder} to prepare it again")
    return manifest


def _without_paths(started: dict) -> dict:
    sources = {split: [side["sha256"] for side in sides] for split, sides in started["sources"].items()}
    return {"settings": started["settings"], "sources": sources}


def _start(unfinished: str, started: dict) -> None:
    """Makes the working folder, or keeps one that was started with the same settings and files."""
    path = os.path.join(unfinished, _STARTED)
    if os.path.isdir(unfinished) and set(os.listdir(unfinished)) - set(_half_written(unfinished, _STARTED)):
        try:
            found = reading.json_file(path, {_MARK: str})
            same = _without_paths(found) == _without_paths(started)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{unfinished}: exists, but is not an unfinished preparation (see its {_STARTED}); "
                "remove it, or use another --folder"
            ) from error
        if same:
            return
        shutil.rmtree(unfinished)
    os.makedirs(unfinished, exist_ok=True)
    files.write(path, json.dumps({_MARK: __version__, **started}, indent=2) + "\n")


def _codes(pool, sides, lines: int, settings: Settings, unfinished: str) -> str:
    """The merges; learned, and written with the vocabulary, if they do not exist."""
    codes_path, vocabulary_path = (os.path.join(unfinished, name) for name in (text.CODES, corpus.VOCABULARY))
    if not os.path.exists(vocabulary_path):  # the later of the two
        share = min(1.0, settings.bpe_sample / lines)
        work = chunks.CountWords(settings.text, share, settings.seed)
        words = Counter()
        for counted in _progress(pool.map(work, chunks.chunks(*sides)), "counting words", lines):
            words.update(counted)
        codes = bpe.learn(words, settings.bpe_units)
        if codes.count("\n") == 1:
            raise DataError(
                f"{sides[0]}: too little text for BPE: no two letters come together twice in {lines * share:,.0f} pairs"
            )
        files.write(codes_path, codes)
        files.write(vocabulary_path, str(Vocabulary(bpe.most_frequent_units(words, codes, settings.bpe_units))))
    return bpe.checked(reading.text(codes_path), codes_path)


def _encode(pool, sides, lines: int, processor, vocabulary: Vocabulary, settings: Settings, unfinished: str) -> dict:
    """Writes the training split as ids, with a journal from time to time; keeps the work of an earlier journal."""
    journal_path = os.path.join(unfinished, _JOURNAL)
    parts = [(side, part) for side in corpus.SIDES for part in ("ids", "offsets")]
    dtype = np.uint16 if len(vocabulary) <= 1 << 16 else np.int32
    paths = [corpus.binary_paths(unfinished, "train", side)[part] for side, part in parts]
    journal = {"read": 0, "pairs": 0, "empty": 0, "too_long": 0, "longest": [0, 0], "sizes": [0, 1, 0, 1]}
    if os.path.exists(journal_path):
        journal = _kept(journal_path, paths, journal)
    if not journal["read"]:
        for path, kind, size in zip(paths, (dtype, np.int64) * 2, journal["sizes"], strict=True):
            np.save(path, np.zeros(size, kind))
    with contextlib.ExitStack() as stack:
        arrays = [
            stack.enter_context(corpus.Appender(path, kind, size))
            for path, kind, size in zip(paths, (dtype, np.int64) * 2, journal["sizes"], strict=True)
        ]
        work = chunks.Encode(processor.settings, processor.codes, str(vocabulary), settings.max_length)
        results = pool.map(work, chunks.chunks(*sides, skip=journal["read"]))
        written = journal["read"]
        for result in _progress(results, "encoding", lines, journal["read"], lambda result: result.read):
            _append(result, arrays, journal)
            if journal["read"] - written >= _JOURNAL_EVERY:
                written = journal["read"]
                _flush(arrays, journal, journal_path)
        _flush(arrays, journal, journal_path)
    if not journal["pairs"]:
        raise DataError(f"{sides[0]}: no pair is left: {journal['empty']:,} are empty, {journal['too_long']:,} long")
    return {
        "read": journal["read"],
        "pairs": journal["pairs"],
        "dropped_empty": journal["empty"],
        "dropped_too_long": journal["too_long"],
        **{f"{side}_tokens": journal["sizes"][2 * i] for i, side in enumerate(corpus.SIDES)},
        **{f"longest_{side}": journal["longest"][i] for i, side in enumerate(corpus.SIDES)},
    }


def _kept(path: str, arrays: list[str], fresh: dict) -> dict:
    """An earlier journal; if it or an array is damaged, warns and returns the fresh one, which keeps no work."""

    def form(journal):
        return {name: (np.shape(value), np.asarray(value).dtype) for name, value in journal.items()}

    with contextlib.suppress(ValueError, AttributeError):
        journal = reading.json_file(path)
        lengths = [len(corpus.map_array(array)) for array in arrays]
        if form(journal) == form(fresh) and np.greater_equal(lengths, journal["sizes"]).all():
            return journal
    warnings.warn(f"{path}: it or one of its arrays is damaged; encoding all pairs again", stacklevel=2)
    return fresh


def _append(result: chunks.Encoded, arrays: list[corpus.Appender], journal: dict) -> None:
    for i, sentences in enumerate(result.sides):
        arrays[2 * i].append(sentences.ids)
        arrays[2 * i + 1].append(journal["sizes"][2 * i] + sentences.offsets[1:])
        journal["sizes"][2 * i] += len(sentences.ids)
        journal["sizes"][2 * i + 1] += len(sentences)
        journal["longest"][i] = max(journal["longest"][i], int(sentences.lengths().max(initial=0)))
    journal["read"] += result.read
    journal["pairs"] += len(result.sides[0])
    journal["empty"] += result.empty
    journal["too_long"] += result.too_long


def _flush(arrays: list, journal: dict, path: str) -> None:
    journal["sizes"] = [array.flush() for array in arrays]
    files.write(path, json.dumps(journal) + "\n")


def _segment(pool, split: str, sides, processor, unfinished: str) -> None:
    """Writes a split for decoding: tokens of both sides, and the target as people write it."""
    work = chunks.Segment(processor.settings, processor.codes)
    written = {"source": [], "target": [], "reference": []}
    for result in pool.map(work, chunks.chunks(*sides)):
        for name, lines in result.items():
            written[name] += lines
    for name, lines in written.items():
        files.write(os.path.join(unfinished, f"{split}.{name}"), "".join(f"{line}\n" for line in lines))


def _warn(path: str, processor: text.Text, unfinished: str) -> None:
    """Warns if the validation targets, from the file `path`, get other blanks, or if BLEU tells nothing of them."""
    tokens, references = corpus.read_references(unfinished, "valid")
    words = [processor.decode(split_words(line)) for line in tokens]
    for problem in (text.blank_problem(processor.settings, references), text.bleu_problem(processor, words)):
        if problem:
            warnings.warn(f"{path}: {problem}", stacklevel=3)


def _progress(results: Iterable, what: str, total: int, done: int = 0, size=None) -> Iterator:
    with tqdm(total=total, initial=done, desc=what, unit=" pairs", unit_scale=True, disable=None) as progress:
        for result in results:
            yield result
            progress.update(size(result) if size else chunks.CHUNK)


def _half_written(folder: str, start: str = "") -> list[str]:
    """Files that killed writes left, of names that begin with `start`."""
    return [name for name in os.listdir(folder) if name.startswith(start) and name.endswith(files.UNFINISHED)]


def _finish(unfinished: str, folder: str, started: dict, counts: dict) -> dict:
    for name in _half_written(unfinished):
        os.remove(os.path.join(unfinished, name))
    paths = {name: os.path.join(unfinished, name) for name in sorted({*os.listdir(unfinished)} - _OWN)}
    contents = {name: {"bytes": os.path.getsize(path), "sha256": files.checksum(path)} for name, path in paths.items()}
    manifest = {
        **started,
        "counts": counts,
        "files": contents,
        "versions": {
            "memattn": __version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("numpy", "subword-nmt", "sacremoses")},
        },
        "command": processes.command(),
    }
    files.write(os.path.join(unfinished, corpus.MANIFEST), json.dumps(manifest, indent=2) + "\n")
    files.move(unfinished, folder)
    for name in _OWN - {corpus.MANIFEST}:
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))
    return manifest
