"""Prepares summaries of one line: from the description of a Debian package, in English, to its synopsis.

python data/synopses.py

apt downloads the descriptions, as for descriptions.py.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import debian
import descriptions
import recipes
from absl import flags

from memattn.data.preparation.commands import define_text_flags


def main() -> None:
    options = flags.FLAGS
    downloads = debian.descriptions(["en"], descriptions.DOWNLOADS)
    splits: dict[str, recipes.Pairs] = {"train": [], "valid": [], "test": []}
    for description in descriptions.read(downloads[0]).values():
        if description.paragraphs:
            pair = " ".join(description.paragraphs), description.synopsis
            splits[descriptions.split_of(description.package)].append(pair)
    text = f"{descriptions.DOWNLOADS}/synopses"
    recipes.prepare(options, splits, ("en", "en"), downloads, descriptions.CHECKSUMS, descriptions.TERMS, text)


if __name__ == "__main__":
    define_text_flags("data/synopses.en", bpe_units=8_000, max_length=recipes.MAX_LENGTH)
    cli.run(main)
