"""What the recipes share: they drop duplicates, prepare the splits, and record lengths, checksums and license."""

import os
import warnings
from collections.abc import Mapping, Sequence

from memattn import files
from memattn.data.corpus import SIDES
from memattn.data.preparation.releases import archives
from memattn.errors import DataError
from memattn.prepare_commands.text import prepare_text

Pairs = list[tuple[str, str]]

MAX_LENGTH = 1_000  # units; the default of `memattn-prepare parallel` would drop long examples
_PERCENTILES = (10, 50, 90, 99)


def prepare(
    splits: Mapping[str, Pairs],
    languages: tuple[str, str],
    raw: Sequence[str],
    checksums: Mapping[str, str],
    terms: str,
    folder: str,
) -> None:
    """Prepares the pairs of the splits train, valid and test as the flags say, without duplicates.

    Args:
      splits: pairs of source and target.
      languages: those of the sources and of the targets.
      raw: the files that the text is from; the manifest has their checksums.
      checksums: SHA-256 by the names of files, for the versions that the documentation describes; others are only
        warned of.
      terms: the license.
      folder: where the text of the splits goes.

    Raises ConfigError, DataError, OSError.
    """
    sums = {os.path.basename(path): files.checksum(path) for path in raw}
    if changed := [name for name, checksum in sums.items() if checksums.get(name) != checksum]:
        warnings.warn(
            f"{', '.join(changed)}: not the version that the documentation describes, so numbers of pairs and scores "
            "differ",
            stacklevel=2,
        )
    distinct, duplicates = without_duplicates(splits)
    if empty := [split for split, pairs in distinct.items() if not pairs]:
        raise DataError(f"{', '.join(raw)}: no pair for the split {empty[0]}")
    facts: dict[str, str | int] = {"license": terms, **sums, "duplicates": duplicates}
    for split, pairs in distinct.items():
        facts[f"{split}_pairs"] = len(pairs)
        for side, texts in zip(SIDES, zip(*pairs, strict=True), strict=True):
            facts[f"{split}_{side}_words"] = lengths(texts)
    os.makedirs(folder, exist_ok=True)
    written = {split: archives.write_split(folder, split, SIDES, pairs) for split, pairs in distinct.items()}
    prepare_text(written, "raw", *languages, release=facts)
    for name, fact in facts.items():
        print(f"{name}: {fact}")


def without_duplicates(splits: Mapping[str, Pairs]) -> tuple[dict[str, Pairs], int]:
    """Returns the splits without pairs whose source or target came before, and the number of pairs left out.

    The test split comes first and the training split last, so that no sentence of the test is in the training split.
    """
    sources: set[str] = set()
    targets: set[str] = set()
    distinct: dict[str, Pairs] = {}
    for split in ("test", "valid", "train"):
        distinct[split] = []
        for source, target in splits[split]:
            if source not in sources and target not in targets:
                distinct[split].append((source, target))
            sources.add(source)
            targets.add(target)
    distinct = {split: distinct[split] for split in ("train", "valid", "test")}
    return distinct, sum(len(pairs) - len(distinct[split]) for split, pairs in splits.items())


def lengths(texts: Sequence[str]) -> str:
    """Returns percentiles of the lengths of texts, in words."""
    ordered = sorted(len(text.split()) for text in texts)
    return ", ".join(f"{ordered[len(ordered) * percent // 100]} ({percent}%)" for percent in _PERCENTILES)
