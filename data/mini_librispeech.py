"""Prepares Mini LibriSpeech, a part of LibriSpeech: English audiobooks, five hours to train on and two to validate on.

python data/mini_librispeech.py
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import glob
import os

import web
from absl import flags

from memattn import files
from memattn.data.preparation.commands import define_speech_flags, prepare_speech
from memattn.errors import DataError

URL = "https://www.openslr.org/resources/31"
TERMS = {
    "license": "CC BY 4.0",
    "attribution": "www.openslr.org/31, a part of LibriSpeech (Panayotov et al., 2015)",
}
SPLITS = {"train": "train-clean-5", "valid": "dev-clean-2"}
CHECKSUMS = {
    "train-clean-5.tar.gz": "md5:5df7d4e78065366204ca6845bb08f490",
    "dev-clean-2.tar.gz": "md5:6d7ab67ac6a1d2c993d050e16d61080d",
}


def main() -> None:
    options = flags.FLAGS
    manifests = fetch(options.base_url, "data/downloads/mini_librispeech")
    prepare_speech(options, options.folder, manifests, "en", release={"url": options.base_url, **TERMS, **CHECKSUMS})


def fetch(base_url: str, folder: str) -> dict[str, str]:
    """Downloads and extracts both parts, and returns the manifest of each split: audio file, tab, text.

    Raises DataError, also for a file with another checksum, OSError.
    """
    web.fetch(CHECKSUMS, base_url, folder)
    manifests = {}
    for split, name in SPLITS.items():
        part = os.path.join(folder, name)
        web.extract(f"{part}.tar.gz", part)
        manifests[split] = f"{part}.tsv"
        files.write(manifests[split], "".join(f"{audio}\t{text}\n" for audio, text in _utterances(part, folder)))
    return manifests


def _utterances(part: str, folder: str) -> list[tuple[str, str]]:
    """Returns the recordings of an extracted part, as paths relative to `folder`, and their texts.

    The texts of a speaker's chapter are in SPEAKER-CHAPTER.trans.txt, whose lines begin with the names of recordings.
    """
    utterances = []
    for path in sorted(glob.glob(os.path.join(glob.escape(part), "**", "*.trans.txt"), recursive=True)):
        for number, line in enumerate(files.read_lines(path), 1):
            name, _, text = line.partition(" ")
            if not text:
                raise DataError(f"{path}:{number}: expected the name of a recording, a space and its text")
            utterances.append((os.path.relpath(os.path.join(os.path.dirname(path), f"{name}.flac"), folder), text))
    return utterances


if __name__ == "__main__":
    flags.DEFINE_string("base_url", URL, "Address of the release.")
    define_speech_flags("data/mini_librispeech")
    cli.run(main, tensorflow=True)
