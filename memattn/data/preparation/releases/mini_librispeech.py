"""Mini LibriSpeech: five hours of English audiobooks to train on and two to validate on, part of LibriSpeech."""

import glob
import os

from memattn import files
from memattn.data.preparation import download
from memattn.data.preparation.releases import archives
from memattn.data.text_files import read_lines
from memattn.errors import DataError

URL = "https://www.openslr.org/resources/31"
LICENSE = "CC BY 4.0"
ATTRIBUTION = "www.openslr.org/31, a part of LibriSpeech (Panayotov et al., 2015)"
SPLITS = {"train": "train-clean-5", "valid": "dev-clean-2"}
MD5 = {"train-clean-5": "5df7d4e78065366204ca6845bb08f490", "dev-clean-2": "6d7ab67ac6a1d2c993d050e16d61080d"}


def fetch(base_url: str, folder: str) -> dict[str, str]:
    """Downloads and extracts both parts, and returns the manifest of each split: audio file, tab, text.

    Raises DataError, also for a file with another checksum, OSError.
    """
    manifests = {}
    for split, name in SPLITS.items():
        url, archive = _archive(name, base_url, folder)
        download.fetch(url, archive, md5=MD5[name])
        download.extract_all(archive, os.path.join(folder, name))
        manifests[split] = os.path.join(folder, f"{name}.tsv")
        lines = [f"{audio}\t{text}\n" for audio, text in _utterances(os.path.join(folder, name), folder)]
        files.write(manifests[split], "".join(lines))
    return manifests


def facts(base_url: str, folder: str) -> dict[str, str | int]:
    """Returns the facts about the download of the training part that go into a manifest. Raises OSError."""
    url, archive = _archive(SPLITS["train"], base_url, folder)
    return archives.facts(url, archive, LICENSE, ATTRIBUTION)


def _archive(name: str, base_url: str, folder: str) -> tuple[str, str]:
    """Returns the address of a part's archive, and the path of its download."""
    return f"{base_url.rstrip('/')}/{name}.tar.gz", os.path.join(folder, f"{name}.tar.gz")


def _utterances(part: str, folder: str) -> list[tuple[str, str]]:
    """Returns the recordings of an extracted part, as paths relative to `folder`, and their texts.

    The texts of a speaker's chapter are in SPEAKER-CHAPTER.trans.txt, whose lines begin with the names of recordings.
    """
    utterances = []
    for path in sorted(glob.glob(os.path.join(glob.escape(part), "**", "*.trans.txt"), recursive=True)):
        for number, line in enumerate(read_lines(path), 1):
            name, _, text = line.partition(" ")
            if not text:
                raise DataError(f"{path}:{number}: expected the name of a recording, a space and its text")
            utterances.append((os.path.relpath(os.path.join(os.path.dirname(path), f"{name}.flac"), folder), text))
    if not utterances:
        raise DataError(f"{part}: no file of texts, SPEAKER-CHAPTER.trans.txt; remove the folder to extract it again")
    return utterances
