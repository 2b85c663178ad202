"""Prepares the descriptions of Debian's packages and their translations, documents of up to some hundred words.

python data/descriptions.py --target it

apt downloads them, as the archive of this computer's Debian or Ubuntu has them. A description that is not translated
completely, or not into as many paragraphs, is left out.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import hashlib
import re
from typing import NamedTuple

import debian
import recipes
from absl import flags

from memattn import files
from memattn.data.preparation.commands import define_text_flags

DOWNLOADS = "data/downloads/descriptions"
CHECKSUMS = {  # of Debian 12
    "bookworm_main_i18n_Translation-en": "62f59c3cdca9786e4f7adf9002f9f5729a684adcb4667e58e448dec9b5a46c7f",
    "bookworm_main_i18n_Translation-it": "f2010961f0968127812de8484ecead4f45b25b2cb6aeb788f9f25753fbd5cff7",
    "bookworm_main_i18n_Translation-fr": "1b5ce81d2dac68fb27997899d9e092b8281f984baa658c22139d8f2640aec6cc",
    "bookworm_main_i18n_Translation-de": "adac331fc51f9a00c1b4120b4ac87423be2b1f1615d4f288c7cbc2d5258c0650",
}
TERMS = "each description has the license of its package's Debian files, all of them free"
_UNTRANSLATED = "<trans>"  # stands for a paragraph
_ENTRY = re.compile(r"Package: (\S+)\nDescription-md5: (\S+)\nDescription-\w+: *(.*)\n((?: .*\n)*)")
_FAMILY = re.compile(r"^(?:golang-\w+-|librust-|libghc-|lib|python3?-|r-cran-|ruby-|node-|php-|fonts-)?[^a-z]*([a-z]*)")


class Description(NamedTuple):
    """The description of a package."""

    package: str
    synopsis: str
    paragraphs: list[str]


def main() -> None:
    options = flags.FLAGS
    downloads = debian.descriptions(["en", options.target], DOWNLOADS)
    english, translations = map(read, downloads)
    splits: dict[str, recipes.Pairs] = {"train": [], "valid": [], "test": []}
    for checksum, translation in translations.items():
        source = english.get(checksum)
        if source and translated(source, translation):
            pair = " ".join(source.paragraphs), " ".join(translation.paragraphs)
            splits[split_of(source.package)].append(pair)
    text = f"{DOWNLOADS}/{options.target}"
    recipes.prepare(options, splits, ("en", options.target), downloads, CHECKSUMS, TERMS, text)


def read(path: str) -> dict[str, Description]:
    """Returns the descriptions in a list of apt by the MD5 of the English ones. Raises DataError, OSError."""
    entries = _ENTRY.findall(files.read_text(path) + "\n")
    return {md5: Description(package, synopsis, paragraphs(lines)) for package, md5, synopsis, lines in entries}


def paragraphs(lines: str) -> list[str]:
    """Returns the paragraphs of lines that begin with a space; a line with a dot ends a paragraph."""
    parts = re.split(r"^ \.\n", lines, flags=re.MULTILINE)
    return [paragraph for part in parts if (paragraph := " ".join(part.split()))]


def translated(source: Description, translation: Description) -> bool:
    """Returns whether a translation has all paragraphs of its source, and is no copy of it."""
    has_all = len(source.paragraphs) == len(translation.paragraphs) > 0
    return has_all and _UNTRANSLATED not in translation.paragraphs and source.paragraphs != translation.paragraphs


def split_of(package: str) -> str:
    """Returns the split of a package and of its family, such as foo, libfoo2, libfoo-dev and python3-foo."""
    family = _FAMILY.findall(package)[0]
    return {0: "valid", 1: "test"}.get(int(hashlib.sha256(family.encode()).hexdigest(), 16) % 25, "train")


if __name__ == "__main__":
    flags.DEFINE_enum("target", "it", ["it", "fr", "de"], "Target language.")
    define_text_flags("data/descriptions.{pair}", bpe_units=8_000, max_length=recipes.MAX_LENGTH)
    cli.run(main)
