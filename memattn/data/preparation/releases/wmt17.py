"""WMT'17, preprocessed by its organizers: the paper's corpora."""

import os

from memattn.data.preparation import download

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


def fetch(pair: str, base_url: str, folder: str) -> dict[str, tuple[str, str]]:
    """Downloads a language pair, such as en-de, and returns the source and target file of each split: truecased text.

    Raises DataError, OSError.
    """
    source, target = pair.split("-")
    release = f"{target}-{source}"
    folder = os.path.join(folder, release)
    for name in (f"corpus.tc.{source}.gz", f"corpus.tc.{target}.gz", "dev.tgz"):
        download.fetch(f"{base_url.rstrip('/')}/{release}/{name}", os.path.join(folder, name))
    splits = {"train": (os.path.join(folder, f"corpus.tc.{source}.gz"), os.path.join(folder, f"corpus.tc.{target}.gz"))}
    for split, name in (("valid", VALIDATION[pair]), ("test", TEST)):
        names = [f"{name}.tc.{source}", f"{name}.tc.{target}"]
        source_path, target_path = download.extract(os.path.join(folder, "dev.tgz"), names, folder)
        splits[split] = (source_path, target_path)
    return splits


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
