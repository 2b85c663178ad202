"""Prepares summaries of one line: from the description of a Debian package, in English, to its synopsis.

python data/synopses.py

apt downloads the descriptions, as for descriptions.py.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os

import debian
import descriptions
import recipes
from absl import flags

from memattn.data.preparation.commands import define_text_flags


def main() -> int:
    options = flags.FLAGS
    downloads = debian.descriptions(["en"], options.download_dir)
    splits: dict[str, recipes.Pairs] = {"train": [], "valid": [], "test": []}
    for description in descriptions.read(downloads[0]).values():
        if description.paragraphs:
            pair = " ".join(description.paragraphs), description.synopsis
            splits[descriptions.split_of(description.package)].append(pair)
    text = os.path.join(options.download_dir, "synopses")
    recipes.prepare(options, splits, ("en", "en"), downloads, descriptions.CHECKSUMS, descriptions.TERMS, text)
    return 0


if __name__ == "__main__":
    flags.DEFINE_string("download_dir", "data/downloads/descriptions", "Folder of the list and of the splits' text.")
    define_text_flags("data/synopses.en", bpe_units=8_000, max_length=recipes.MAX_LENGTH)
    cli.run(main)
