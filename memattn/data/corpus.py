"""Reads the folder of a prepared corpus: its vocabulary, its splits, and the references of a split."""

import os
from collections.abc import Callable, Collection, Mapping
from typing import Literal

from memattn import files
from memattn.data import features
from memattn.data.sentences import Corpus, Sentences, Sources, are_starts
from memattn.data.tokenizer import Side
from memattn.data.vocabulary import SPECIAL_TOKENS, Vocabulary, split_words
from memattn.errors import ConfigError, DataError, abbreviated

Part = Literal["ids", "offsets"]

VOCABULARY, MANIFEST = "vocab.txt", "manifest.json"
SIDES: tuple[Side, Side] = ("source", "target")
PARTS: tuple[Part, Part] = ("ids", "offsets")


def read_vocabulary(folder: str) -> Vocabulary:
    """Reads the vocabulary of a prepared corpus, a run folder or an exported model: a file with a token per line.

    A token may hold white space that does not separate tokens, such as a no-break space. Raises DataError, OSError.
    """
    path = os.path.join(folder, VOCABULARY)
    tokens, numbers = files.read_lines(path), dict[str, int]()
    for number, token in enumerate(tokens or [""], 1):
        first = numbers.setdefault(token, number)
        if not token:
            problem = "the line is empty; it needs a token"
        elif token in SPECIAL_TOKENS:
            problem = f"{token!r} is a special token, which every vocabulary has already; remove the line"
        elif split_words(token) != [token]:
            problem = f"the token {abbreviated(token)} holds white space that separates tokens"
        elif first != number:
            problem = f"the token {abbreviated(token)} is in line {first} already; remove one of the two"
        else:
            continue
        raise DataError(f"{path}:{number}: {problem}")
    return Vocabulary(tokens)


def read_corpus(folder: str, split: str, vocabulary: Vocabulary, kind: str = "tokens") -> Corpus:
    """Reads a split whose sources are of the kind that `data.source` names. Raises ConfigError, DataError, OSError."""
    return READERS[kind](folder, split, vocabulary)


def _read_tokens(folder: str, split: str, vocabulary: Vocabulary) -> Corpus:
    """Maps the binary files of a split into memory or, if it has none, reads its text. Raises as `read_corpus` does."""
    if os.path.exists(features.offsets_path(folder, split)):
        raise ConfigError(f"data.source: tokens, but the sources of {folder} are features; set data.source: features")
    if os.path.exists(binary_paths(folder, split, "source")["ids"]):
        _check_vocabulary(folder)
        source, target = (_map_sentences(folder, split, side, len(vocabulary)) for side in SIDES)
        paths = [binary_paths(folder, split, side)["offsets"] for side in SIDES]
    else:
        paths = [os.path.join(folder, f"{split}.{side}") for side in SIDES]
        source, target = (Sentences.from_lines(files.read_lines(path), vocabulary) for path in paths)
    return _paired(source, target, *paths)


def _read_features(folder: str, split: str, vocabulary: Vocabulary) -> Corpus:
    """Maps the shards of a split's sources into memory, and reads the text of its targets. Raises DataError."""
    source, path = features.read(folder, split), os.path.join(folder, f"{split}.target")
    return _paired(source, Sentences.from_lines(files.read_lines(path), vocabulary), source.path, path)


READERS: dict[str, Callable[[str, str, Vocabulary], Corpus]] = {  # by the names in data.source
    "tokens": _read_tokens,
    "features": _read_features,
}


def _paired(source: Sources, target: Sentences, source_path: str, target_path: str) -> Corpus:
    check_line_counts({source_path: len(source), target_path: len(target)})
    return Corpus(source, target)


def check_line_counts(counts: Mapping[str, int]) -> None:
    """Raises DataError unless files, given by path with their numbers of lines, have equally many, at least one."""
    if len(set(counts.values())) > 1:
        each = " and ".join(f"{path} has {number:,} lines" for path, number in counts.items())
        raise DataError(f"{each}: a line of one must correspond to the same line of the other")
    if 0 in counts.values():
        raise DataError(f"{next(iter(counts))}: empty; a split needs at least one line")


def check_folder(folder: str) -> None:
    """Raises ConfigError if the folder of a corpus does not exist."""
    if not os.path.isdir(folder):
        raise ConfigError(
            f"data.folder: {folder} is not a folder; it should hold vocab.txt and train.source, ...; "
            "prepare it, or say where it is by --set data.folder=... (paths are from the current folder)"
        )


def check_split(folder: str, split: str, known: Collection[str] | None = None) -> None:
    """Raises ConfigError if a corpus has no such split; its folder may be missing if `known` names its splits."""
    if known is None:
        check_folder(folder)
        known = sorted(name.removesuffix(".target") for name in os.listdir(folder) if name.endswith(".target"))
    if split not in known:
        raise ConfigError(f"{folder}: has no split {split} to evaluate on; it has {', '.join(known) or 'none'}")


def read_references(folder: str, split: str) -> tuple[list[list[str]], list[str]]:
    """Returns the tokens of each target of a split, and the targets as people wrote them. Raises DataError, OSError."""
    target_path, path = (os.path.join(folder, f"{split}.{name}") for name in ("target", "reference"))
    tokens = list(map(split_words, files.read_lines(target_path)))
    references = files.read_lines(path) if os.path.exists(path) else list(map(" ".join, tokens))
    check_line_counts({target_path: len(tokens), path: len(references)})
    return tokens, references


def binary_paths(folder: str, split: str, side: Side) -> dict[Part, str]:
    """Returns the paths that one side of a split has in binary form."""
    return {part: os.path.join(folder, f"{split}.{side}.{part}.npy") for part in PARTS}


def _map_sentences(folder: str, split: str, side: Side, num_ids: int) -> Sentences:
    paths = binary_paths(folder, split, side)
    ids, offsets = (files.read_array(paths[part], 1, "iu") for part in PARTS)
    if not are_starts(offsets, len(ids)):
        raise DataError(f"{paths['offsets']}: does not match {paths['ids']}; prepare the corpus again")
    return Sentences(ids, offsets, paths["ids"], num_ids)


def _check_vocabulary(folder: str) -> None:
    """Raises DataError if the ids were made with another vocabulary than the folder's."""
    manifest = os.path.join(folder, MANIFEST)
    if not os.path.exists(manifest):
        return
    import pooch  # only here, as memattn-onnx needs none

    expected = files.read_json(manifest, {"files": dict})["files"][VOCABULARY]["sha256"]
    path = os.path.join(folder, VOCABULARY)
    if pooch.file_hash(path) != expected:
        raise DataError(f"{path}: not the one that {folder} was prepared with")
