"""Prepares a language pair of WMT'17 as its organizers preprocessed it, the paper's corpora (section 4.2).

python data/wmt17.py --pair en-de
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import glob
import os
import warnings

import web
from absl import flags

from memattn.data.preparation.commands import define_text_flags, prepare_text
from memattn.data.tokenizer import TextSettings
from memattn.errors import DataError

URL = "https://data.statmt.org/wmt17/translation-task/preprocessed"
VALIDATION = {"en-cs": "newstest2015", "en-de": "newstest2015", "en-fi": "newstest2015", "en-tr": "newsdev2016"}
TEST = "newstest2016"
# Number of training pairs in the paper, and by how much it may be rounded. The files have no published checksum.
PAIRS = {
    "en-cs": (52_000_000, 500_000),
    "en-de": (5_900_000, 50_000),
    "en-fi": (2_600_000, 50_000),
    "en-tr": (207_373, 0),
}


def main() -> None:
    options = flags.FLAGS
    splits = fetch(options.pair, options.base_url, "data/downloads/wmt17")
    text = TextSettings("truecased", *options.pair.split("-"))
    read = prepare_text(options, splits, text, config=f"wmt17/{options.pair}")
    if warning := problem(options.pair, read):
        warnings.warn(warning, stacklevel=1)


def fetch(pair: str, base_url: str, folder: str) -> dict[str, tuple[str, str]]:
    """Downloads a language pair, such as en-de, and returns the source and target file of each split: truecased text.

    Raises DataError, OSError.
    """
    languages = pair.split("-")
    release = "-".join(reversed(languages))
    source, target = (f"{release}/corpus.tc.{language}.gz" for language in languages)
    web.fetch(dict.fromkeys([source, target, f"{release}/dev.tgz"]), base_url, folder)
    dev = os.path.join(folder, release, "dev")
    web.extract(f"{dev}.tgz", dev)
    splits = {"train": (os.path.join(folder, source), os.path.join(folder, target))}
    for split, name in (("valid", VALIDATION[pair]), ("test", TEST)):
        source, target = (_only_file(dev, f"{name}.tc.{language}") for language in languages)
        splits[split] = source, target
    return splits


def _only_file(folder: str, name: str) -> str:
    """Returns the path of the only file with a name below a folder. Raises DataError."""
    paths = glob.glob(os.path.join(glob.escape(folder), "**", name), recursive=True)
    if len(paths) != 1:
        raise DataError(f"{folder}: holds {len(paths)} files {name}, not one; put the right one there, or remove it")
    return paths[0]


def problem(pair: str, pairs: int) -> str | None:
    """Returns a warning if a number of training pairs is not the paper's, or None."""
    expected, rounding = PAIRS[pair]
    if abs(pairs - expected) <= rounding:
        return None
    about = "about " if rounding else ""
    return (
        f"{pair} has {pairs:,} training pairs, and {about}{expected:,} in the paper: this is another corpus, or "
        "a part of it; compare the sizes and checksums in manifest.json with those of another download"
    )


if __name__ == "__main__":
    flags.DEFINE_enum("pair", None, list(VALIDATION), "Source and target language.", required=True)
    flags.DEFINE_string("base_url", URL, "Address of the release, which has a folder for each pair.")
    define_text_flags("data/wmt17.{pair}", bpe_units=16_000)
    cli.run(main)
