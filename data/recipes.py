"""Steps that recipes share: calls of programs, removal of copies, preparation of pairs."""

import os
import subprocess
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pooch
from absl import flags

from memattn import files
from memattn.data.corpus import SIDES
from memattn.data.preparation.commands import prepare_text
from memattn.data.tokenizer import TextSettings
from memattn.errors import ConfigError, DataError, RunError

Pairs = list[tuple[str, str]]

MAX_LENGTH = 1_000  # units; the default of `memattn-prepare parallel` would drop long examples
_PERCENTILES = (10, 50, 90, 99)


def run(command: Sequence[str], advice: str, title: str = "", **options: Any) -> str:
    """Runs a program, and returns what it prints.

    Args:
      command: the name of the program, and its arguments.
      advice: what to do if the program is missing.
      title: what messages call the program and its work; by default its name.
      **options: as `subprocess.run` takes them.

    Raises ConfigError if the program is missing, RunError with the last line of its messages if it fails.
    """
    try:
        result = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=False, **options
        )
    except FileNotFoundError as error:
        raise ConfigError(f"{command[0]} is missing; {advice}") from error
    if result.returncode:
        problem = (result.stderr.strip().splitlines() or [f"ended with status {result.returncode}"])[-1]
        raise RunError(f"{title or command[0]}: {problem}")
    return result.stdout


def prepare(
    options: flags.FlagValues,
    splits: Mapping[str, Pairs],
    languages: tuple[str, str],
    downloads: Sequence[str],
    checksums: Mapping[str, str],
    terms: str,
    text_folder: str,
) -> None:
    """Prepares the pairs of the splits train, valid and test as the flags say, without copies.

    Args:
      options: flags that `define_text_flags` defines.
      splits: pairs of source and target.
      languages: those of the sources and of the targets.
      downloads: paths of the files that the text is from; the manifest has their checksums.
      checksums: SHA-256 by the names of files, for the versions that the documentation describes; others are only
        warned of.
      terms: the license.
      text_folder: where the text of the splits goes.

    Raises ConfigError, DataError, OSError.
    """
    sums = {os.path.basename(path): pooch.file_hash(path) for path in downloads}
    if changed := [name for name, checksum in sums.items() if checksums.get(name) != checksum]:
        warnings.warn(
            f"{', '.join(changed)}: not the version that the documentation describes, so numbers of pairs and scores "
            "differ",
            stacklevel=2,
        )
    distinct, left_out = without_copies(splits)
    if empty := [split for split, pairs in distinct.items() if not pairs]:
        raise DataError(f"{', '.join(downloads)}: no pair for the split {empty[0]}")
    release: dict[str, str | int] = {"license": terms, **sums, **left_out}
    for split, pairs in distinct.items():
        release[f"{split}_pairs"] = len(pairs)
        for side, texts in zip(SIDES, zip(*pairs, strict=True), strict=True):
            release[f"{split}_{side}_words"] = percentiles_of_lengths(texts)
    os.makedirs(text_folder, exist_ok=True)
    written = {split: write_split(os.path.join(text_folder, split), pairs) for split, pairs in distinct.items()}
    prepare_text(options, written, TextSettings("raw", *languages), release=release)


def write_split(prefix: str, pairs: Pairs) -> tuple[str, str]:
    """Writes PREFIX.source and PREFIX.target; returns their paths. Raises OSError."""
    source, target = (f"{prefix}.{side}" for side in SIDES)
    for path, lines in zip((source, target), zip(*pairs, strict=True), strict=True):
        files.write_lines(path, lines)
    return source, target


def without_copies(splits: Mapping[str, Pairs]) -> tuple[dict[str, Pairs], dict[str, int]]:
    """Returns the splits without copies, and the numbers of pairs left out.

    The test split comes first, then the validation split, then the training split. A pair is left out whose source or
    target came before, and one whose source is nearly that of pairs of the test or validation split: at least half of
    its sequences of eight words are theirs.
    """
    sources: set[str] = set()
    targets: set[str] = set()
    evaluated: set[str] = set()  # sequences of words in the test and validation splits
    distinct: dict[str, Pairs] = {"train": [], "valid": [], "test": []}
    numbers = {"duplicates": 0, "near_copies": 0}
    for split in ("test", "valid", "train"):
        for source, target in splits[split]:
            sequences = _sequences(source)
            if source in sources or target in targets:
                numbers["duplicates"] += 1
            elif 2 * len(sequences & evaluated) >= len(sequences):
                numbers["near_copies"] += 1
            else:
                distinct[split].append((source, target))
                evaluated |= sequences if split != "train" else set()
            sources.add(source)
            targets.add(target)
    return distinct, numbers


def _sequences(text: str) -> set[str]:
    """Returns all sequences of eight words in a text; of a shorter text, the text."""
    words = text.split()
    return {" ".join(words[start : start + 8]) for start in range(max(1, len(words) - 7))}


def percentiles_of_lengths(texts: Sequence[str]) -> str:
    """Returns percentiles of the lengths of texts in words, such as "5 (10%), 16 (50%)"."""
    ordered = sorted(len(text.split()) for text in texts)
    return ", ".join(f"{ordered[len(ordered) * percent // 100]} ({percent}%)" for percent in _PERCENTILES)
