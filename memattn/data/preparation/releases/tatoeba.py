"""Tatoeba: English sentences with translations into many languages, as www.manythings.org/anki has them."""

import hashlib
import os

from memattn.data.preparation import download
from memattn.data.preparation.releases import archives
from memattn.data.text_files import read_lines
from memattn.errors import DataError

URL = "https://www.manythings.org/anki"
LICENSE = "CC BY 2.0 FR"
ATTRIBUTION = "www.manythings.org/anki and tatoeba.org"
LEAST = 10  # pairs of a split


def fetch(language: str, base_url: str, folder: str) -> dict[str, tuple[str, str]]:
    """Downloads English sentences with translations, and returns the source and target file of each split: raw text.

    The release has no splits; `split_of` draws them.

    Args:
      language: code of the target language in the release, such as deu.
      base_url: address of the release.
      folder: where the archive and, in a folder of the language, the files of the splits go.

    Raises DataError, OSError.
    """
    url, archive = _archive(language, base_url, folder)
    try:
        download.fetch(url, archive)
    except download.RefusedError as error:
        raise DataError(f"{error}; --language is a code of the list at {URL}") from error
    folder = archive.removesuffix(".zip")
    text = download.unzip(archive, f"{language}.txt", folder)
    pairs: dict[str, list[tuple[str, str]]] = {"train": [], "valid": [], "test": []}
    for number, line in enumerate(read_lines(text), 1):
        columns = line.split("\t")
        if len(columns) != 3:
            raise DataError(
                f"{text}:{number}: {len(columns)} columns, not 3, separated by tabs: sentence, translation, attribution"
            )
        pairs[split_of(columns[0])].append((columns[0], columns[1]))
    for split, drawn in pairs.items():
        if len(drawn) < LEAST:
            raise DataError(
                f"{text}: too few pairs: of {sum(map(len, pairs.values())):,}, {len(drawn)} fall to the split {split}, "
                f"which needs {LEAST}; memattn-prepare parallel takes splits of your own"
            )
    return {split: archives.write_split(folder, split, ("eng", language), drawn) for split, drawn in pairs.items()}


def split_of(english: str) -> str:
    """Returns the split of an English sentence and of all its translations; it is the same in every release."""
    digest = hashlib.sha256(english.strip().encode()).hexdigest()
    return {0: "valid", 1: "test"}.get(int(digest, 16) % 100, "train")


def facts(language: str, base_url: str, folder: str) -> dict[str, str | int]:
    """Returns what a manifest says about a downloaded release, which has no published checksum. Raises OSError."""
    url, archive = _archive(language, base_url, folder)
    return archives.facts(url, archive, LICENSE, ATTRIBUTION)


def _archive(language: str, base_url: str, folder: str) -> tuple[str, str]:
    """Returns the address of a language's archive, and the path of its download."""
    name = f"{language}-eng.zip"
    return f"{base_url.rstrip('/')}/{name}", os.path.join(folder, name)
