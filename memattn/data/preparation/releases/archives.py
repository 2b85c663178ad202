"""Writes the files of a split from sentence pairs, and describes a downloaded archive for the manifest."""

import os
from collections.abc import Sequence

from memattn import files


def write_split(folder: str, split: str, ends: Sequence[str], pairs: list[tuple[str, str]]) -> tuple[str, str]:
    """Writes sentences and their translations into the files SPLIT.END of a folder; returns their paths.

    `ends` are those of the source's and the target's file, such as en and de. Raises OSError.
    """
    source, target = (os.path.join(folder, f"{split}.{end}") for end in ends)
    for path, lines in zip((source, target), zip(*pairs, strict=True), strict=True):
        files.write(path, "".join(f"{line}\n" for line in lines))
    return source, target


def facts(url: str, archive: str, terms: str, attribution: str) -> dict[str, str | int]:
    """Returns what a manifest says about an archive whose license is `terms`. Raises OSError."""
    return {
        "url": url,
        "bytes": os.path.getsize(archive),
        "sha256": files.checksum(archive),
        "license": terms,
        "attribution": attribution,
    }
