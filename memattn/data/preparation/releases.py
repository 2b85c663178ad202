"""Released corpora: where WMT'17 and Multi30k are, and which of their files make the splits."""

import os

from memattn.data.preparation import download

WMT17_URL = "https://data.statmt.org/wmt17/translation-task/preprocessed"
WMT17_VALIDATION = {"en-cs": "newstest2015", "en-de": "newstest2015", "en-fi": "newstest2015", "en-tr": "newsdev2016"}
WMT17_TEST = "newstest2016"
# Number of training pairs in the paper, and by how much it may be rounded. The files have no published checksum.
WMT17_PAIRS = {
    "en-cs": (52_000_000, 500_000),
    "en-de": (5_900_000, 50_000),
    "en-fi": (2_600_000, 50_000),
    "en-tr": (207_373, 0),
}
MULTI30K_URL = (
    "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
)
MULTI30K_SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
MULTI30K_SHA256 = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
}


def wmt17(pair: str, base_url: str, folder: str) -> dict[str, tuple[str, str]]:
    """Downloads a language pair, such as en-de, and returns the source and target file of each split: truecased text.

    Raises DataError, OSError.
    """
    source, target = pair.split("-")
    release = f"{target}-{source}"
    folder = os.path.join(folder, release)
    for name in (f"corpus.tc.{source}.gz", f"corpus.tc.{target}.gz", "dev.tgz"):
        download.fetch(f"{base_url.rstrip('/')}/{release}/{name}", os.path.join(folder, name))
    splits = {"train": (os.path.join(folder, f"corpus.tc.{source}.gz"), os.path.join(folder, f"corpus.tc.{target}.gz"))}
    for split, name in (("valid", WMT17_VALIDATION[pair]), ("test", WMT17_TEST)):
        names = [f"{name}.tc.{source}", f"{name}.tc.{target}"]
        source_path, target_path = download.extract(os.path.join(folder, "dev.tgz"), names, folder)
        splits[split] = (source_path, target_path)
    return splits


def wmt17_problem(pair: str, pairs: int) -> str | None:
    """Returns a warning if a number of training pairs is not the paper's, or None."""
    expected, rounding = WMT17_PAIRS[pair]
    if abs(pairs - expected) <= rounding:
        return None
    about = "about " if rounding else ""
    return (
        f"{pair} has {pairs:,} training pairs, and {about}{expected:,} in the paper: this is another corpus, or "
        "a part of it; compare the sizes and checksums in manifest.json with those of another download"
    )


def multi30k(base_url: str, folder: str) -> dict[str, tuple[str, str]]:
    """Downloads the English and German captions, and returns the source and target file of each split: raw text.

    Raises DataError, also for a file with another checksum, OSError.
    """
    splits = {}
    for split, prefix in MULTI30K_SPLITS.items():
        source, target = (os.path.join(folder, f"{prefix}.{language}.gz") for language in ("en", "de"))
        for path in (source, target):
            name = os.path.basename(path)
            download.fetch(f"{base_url.rstrip('/')}/{name}", path, MULTI30K_SHA256[name])
        splits[split] = (source, target)
    return splits
