"""Prepares a folder with a parallel corpus: checks, byte-pair encoding, one vocabulary, ids, and a manifest.

The work is done in `FOLDER.unfinished`, where each file appears complete and is made once. The folder takes its name
when everything is done.
"""

import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Iterable

from tqdm import tqdm

from memattn import __version__, files, processes, reading
from memattn.config import differences
from memattn.data import tokenizer as tokenizers
from memattn.data.corpus import MANIFEST, VOCABULARY, read_vocabulary
from memattn.data.preparation import encoding, learning, segmenting
from memattn.data.preparation.chunks import count_pairs
from memattn.data.preparation.workers import Workers
from memattn.data.tokenizer import SubwordTokenizer, TextSettings
from memattn.errors import ConfigError, DataError

Splits = dict[str, tuple[str, str]]  # source and target file by the name of the split

_INPUTS = "settings.json"  # what the unfinished corpus is made from
_VERSION_KEY = "memattn"  # key of memattn's version in _INPUTS, which marks the folder as a preparation
_WORK_FILES = {_INPUTS, encoding.JOURNAL}  # not part of the corpus
_COUNTS = ("read", "pairs", "dropped_empty", "dropped_too_long", "source_tokens", "target_tokens")
_MANIFEST_KINDS: reading.Kinds = {
    **dict.fromkeys(("settings", "sources", "files"), dict),
    **{("counts", "train", name): int for name in _COUNTS},
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a prepared corpus: with its source files, they determine it.

    `bpe_units`, `bpe_sample` and `seed` are None if another corpus gives BPE and vocabulary.

    Attributes:
      text: form and languages.
      bpe_units: units of the vocabulary, and byte-pair merges to learn.
      bpe_sample: number of pairs to learn them from, drawn at random if the corpus has more.
      max_length: most units on a side, without the end of sentence; training pairs with more are dropped.
      seed: seed of the sample.
    """

    text: TextSettings
    bpe_units: int | None = 16_000
    bpe_sample: int | None = 5_000_000
    max_length: int = 200
    seed: int | None = 1


def prepare(
    splits: Splits,
    settings: Settings,
    folder: str,
    workers: int,
    shared: str | None = None,
    release: dict[str, str | int] | None = None,
) -> dict:
    """Prepares splits in a folder: `train` as arrays of ids, the other splits as text. Returns the manifest.

    A folder that is already complete is not touched.

    Args:
      splits: the files of each split, plain or .gz.
      settings: how to prepare them.
      folder: where the corpus is to be.
      workers: number of processes.
      shared: a prepared corpus or a run folder, whose BPE and vocabulary are used; None learns them.
      release: what the manifest says about the release that the splits are from; None for text of the user's.

    Raises:
      ConfigError: The folder holds something else, or `shared` does not fit.
      RunError: Another process is preparing the folder.
      DataError: The text cannot be used.
      OSError: A file cannot be read or written.
    """
    folder = os.path.normpath(folder)
    if os.path.exists(folder):
        return check_complete(folder, _describe_inputs(splits, settings, shared))
    with processes.making(folder, "is preparing it; wait, or use another --folder"):
        inputs = _describe_inputs(splits, settings, shared)
        if os.path.exists(folder):
            return check_complete(folder, inputs)
        unfinished = f"{folder}{files.UNFINISHED}"
        start(unfinished, inputs)
        _copy_shared(inputs, unfinished)
        counts = _write_files(splits, settings, unfinished, workers)
        described = {**inputs, "release": release} if release else inputs
        return finish(unfinished, folder, described, counts)


def _describe_inputs(splits: Splits, settings: Settings, shared: str | None) -> dict:
    """Returns what the manifest says about settings and source files. Raises ConfigError, DataError, OSError."""
    sources = {split: describe_files(paths) for split, paths in splits.items()}
    if shared:
        if not os.path.exists(os.path.join(shared, VOCABULARY)):
            raise ConfigError(f"--vocabulary_of {shared}: neither a run folder nor a prepared corpus")
        tokenizer = tokenizers.read(shared)
        if not isinstance(tokenizer, SubwordTokenizer):
            raise ConfigError(f"--vocabulary_of {shared}: its corpus came as tokens, without a BPE")
        if tokenizer.settings != settings.text:
            shared_text, text = (" ".join(dataclasses.astuple(form)) for form in (tokenizer.settings, settings.text))
            raise ConfigError(f"--vocabulary_of {shared}: its text is {shared_text}, not {text}")
        names = (tokenizers.UNITS[settings.text.units].file, VOCABULARY)
        paths = [os.path.join(shared, name) for name in names]
        sources["vocabulary_of"] = describe_files(paths)
    return {"settings": dataclasses.asdict(settings), "sources": sources}


def describe_files(paths: Iterable[str]) -> list[dict[str, str | int]]:
    """Returns what a manifest says about source files. Raises OSError."""
    return [{"path": path, "bytes": os.path.getsize(path), "sha256": files.checksum(path)} for path in paths]


def _comparable(inputs: dict) -> dict:
    """Returns inputs without paths: the same files in another place make the same corpus.

    A corpus that does not name its units has BPE.
    """
    sources = {split: [side["sha256"] for side in sides] for split, sides in inputs["sources"].items()}
    settings = {**inputs["settings"], "text": {"units": "bpe", **inputs["settings"]["text"]}}
    return {"settings": settings, "sources": sources}


def check_complete(folder: str, inputs: dict, kinds: reading.Kinds = _MANIFEST_KINDS) -> dict:
    """Returns the manifest of an existing folder. Raises ConfigError unless it holds the corpus of these inputs.

    `kinds` are the types of values that the manifest needs.
    """
    path, expected = os.path.join(folder, MANIFEST), _comparable(inputs)
    try:
        manifest = reading.json_file(path, kinds)
        stored = _comparable(manifest)
        sizes = {name: facts["bytes"] for name, facts in manifest["files"].items()}
        differing = ", ".join(map(str, differences(stored["settings"], expected["settings"]))) or "other files"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = error if isinstance(error, DataError) else f"{path}: {getattr(error, 'strerror', None) or error!r}"
        raise ConfigError(f"{folder}: exists, but is not a prepared corpus ({problem}); use another") from error
    if stored != expected:
        raise ConfigError(f"{folder}: holds another corpus ({differing}); use another folder, or remove it")
    for name, size in sizes.items():
        file = os.path.join(folder, name)
        if not os.path.exists(file) or os.path.getsize(file) != size:
            raise ConfigError(f"{file}: missing or changed; remove {folder} to prepare it again")
    return manifest


def start(unfinished: str, inputs: dict) -> None:
    """Makes the working folder, or keeps one that was started with the same inputs.

    Work on other source files, such as broken ones that were mended since, is removed. Raises ConfigError for work with
    other settings, and for a folder that no preparation has made.
    """
    path = os.path.join(unfinished, _INPUTS)
    if os.path.isdir(unfinished) and set(os.listdir(unfinished)) - set(_interrupted_writes(unfinished, _INPUTS)):
        try:
            stored, expected = _comparable(reading.json_file(path, {_VERSION_KEY: str})), _comparable(inputs)
            differing = differences(stored["settings"], expected["settings"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{unfinished}: exists, but is not an unfinished preparation (see its {_INPUTS}); "
                "remove it, or use another --folder"
            ) from error
        if stored == expected:
            return
        if differing:
            settings = ", ".join(map(str, differing))
            raise ConfigError(
                f"{unfinished}: holds an unfinished preparation with other settings: {settings}; give these to resume "
                "it, or remove the folder"
            )
        shutil.rmtree(unfinished)
    os.makedirs(unfinished, exist_ok=True)
    files.write(path, json.dumps({_VERSION_KEY: __version__, **inputs}, indent=2) + "\n")


def _copy_shared(inputs: dict, unfinished: str) -> None:
    """Copies BPE and vocabulary of another corpus, if they are shared."""
    for shared in inputs["sources"].get("vocabulary_of", []):
        with reading.open_regular(shared["path"]) as file:
            files.write(os.path.join(unfinished, os.path.basename(shared["path"])), file.read())


def _write_files(splits: Splits, settings: Settings, unfinished: str, workers: int) -> dict[str, dict[str, int]]:
    """Writes all files but the manifest; returns its counts by split."""
    with Workers(workers) as pool:
        checked = tqdm(splits.items(), desc="checking lines", unit=" splits", disable=None)
        pairs = {split: count_pairs(pool, *paths) for split, paths in checked}
        tokenizer = _tokenizer(pool, splits["train"], pairs["train"], settings, unfinished)
        vocabulary = read_vocabulary(os.path.join(unfinished, VOCABULARY))
        for name, content in tokenizer.files().items():
            files.write(os.path.join(unfinished, name), content)
        counts = {split: {"pairs": number} for split, number in pairs.items()}
        counts["train"] = encoding.write_encoded(
            pool, splits["train"], pairs["train"], tokenizer, vocabulary, settings.max_length, unfinished
        )
        for split, paths in splits.items():
            if split != "train":
                segmenting.write_segmented(pool, split, paths, tokenizer, unfinished)
    if "valid" in splits:
        segmenting.warn_of_problems(splits["valid"][1], tokenizer, unfinished)
    return counts


def _tokenizer(
    pool: Workers, paths: tuple[str, str], pairs: int, settings: Settings, unfinished: str
) -> SubwordTokenizer:
    """Returns the tokenizer, whose merges are learned if the folder has none."""
    if not os.path.exists(os.path.join(unfinished, VOCABULARY)):
        if settings.bpe_units is None or settings.bpe_sample is None or settings.seed is None:
            raise ConfigError("bpe_units, bpe_sample, seed: needed where no other corpus gives the BPE")
        learning.learn(
            pool,
            paths,
            pairs,
            settings.text,
            units=settings.bpe_units,
            sample=settings.bpe_sample,
            seed=settings.seed,
            folder=unfinished,
        )
    return tokenizers.read_units(unfinished, settings.text)


def _interrupted_writes(folder: str, prefix: str = "") -> list[str]:
    """Returns the names, beginning with `prefix`, of files that killed writes left."""
    return [name for name in os.listdir(folder) if name.startswith(prefix) and name.endswith(files.UNFINISHED)]


def finish(unfinished: str, folder: str, inputs: dict, counts: dict[str, dict[str, int]]) -> dict:
    """Writes the manifest, gives the folder its name, and removes what is not part of the corpus."""
    for name in _interrupted_writes(unfinished):
        os.remove(os.path.join(unfinished, name))
    names = sorted({*os.listdir(unfinished)} - _WORK_FILES - {MANIFEST})
    paths = {name: os.path.join(unfinished, name) for name in names}
    contents = {name: {"bytes": os.path.getsize(path), "sha256": files.checksum(path)} for name, path in paths.items()}
    manifest = {
        **inputs,
        "counts": counts,
        "files": contents,
        "versions": {
            "memattn": __version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("numpy", "subword-nmt", "sacremoses")},
        },
        "command": processes.command(),
    }
    files.write(os.path.join(unfinished, MANIFEST), json.dumps(manifest, indent=2) + "\n")
    files.move(unfinished, folder)
    for name in _WORK_FILES:
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))
    return manifest
