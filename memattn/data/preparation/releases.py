"""Released corpora: where WMT'17, Multi30k and Tatoeba's pairs are, and what of them makes the splits."""

import hashlib
import os

from memattn import files
from memattn.data.preparation import download
from memattn.data.text_files import read_lines
from memattn.errors import DataError

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
TATOEBA_URL = "https://www.manythings.org/anki"
TATOEBA_LICENSE = "CC BY 2.0 FR"
TATOEBA_ATTRIBUTION = "www.manythings.org/anki and tatoeba.org"
# The codes by which the tokenizer knows languages, where they are not those of the release.
TATOEBA_LANGUAGES = {
    "asm": "as", "ben": "bn", "bod": "bo", "cat": "ca", "ces": "cs", "cmn": "zh", "deu": "de", "ell": "el",
    "est": "et", "fin": "fi", "fra": "fr", "gle": "ga", "guj": "gu", "hin": "hi", "hun": "hu", "isl": "is",
    "ita": "it", "jpn": "ja", "kan": "kn", "khm": "km", "kor": "ko", "lao": "lo", "lit": "lt", "lvs": "lv",
    "mal": "ml", "mar": "mr", "mya": "my", "nld": "nl", "ori": "or", "pan": "pa", "pol": "pl", "por": "pt",
    "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "swe": "sv", "tam": "ta", "tel": "te",
    "tha": "th",
}  # fmt: skip
TATOEBA_LEAST = 10  # pairs of a split


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


def tatoeba(language: str, base_url: str, folder: str) -> dict[str, tuple[str, str]]:
    """Downloads English sentences with translations, and returns the source and target file of each split: raw text.

    The release has no splits; `tatoeba_split` draws them.

    Args:
      language: code of the target language in the release, such as deu.
      base_url: address of the release.
      folder: where the archive and, in a folder of the language, the files of the splits go.

    Raises DataError, OSError.
    """
    url, archive = _tatoeba_archive(language, base_url, folder)
    try:
        download.fetch(url, archive)
    except download.RefusedError as error:
        raise DataError(
            f"{error}; --language is a code of the list at {TATOEBA_URL}; if the server refuses only this program, "
            f"download the file in a browser and put it into {folder}"
        ) from error
    folder = archive.removesuffix(".zip")
    text = download.unzip(archive, f"{language}.txt", folder)
    pairs: dict[str, list[tuple[str, str]]] = {"train": [], "valid": [], "test": []}
    for number, line in enumerate(read_lines(text), 1):
        columns = line.split("\t")
        if len(columns) != 3:
            raise DataError(
                f"{text}:{number}: {len(columns)} columns, not 3, separated by tabs: sentence, translation, attribution"
            )
        pairs[tatoeba_split(columns[0])].append((columns[0], columns[1]))
    for split, drawn in pairs.items():
        if len(drawn) < TATOEBA_LEAST:
            raise DataError(
                f"{text}: too few pairs: of {sum(map(len, pairs.values())):,}, {len(drawn)} fall to the split {split}, "
                f"which needs {TATOEBA_LEAST}; memattn-prepare parallel takes splits of your own"
            )
    splits = {}
    for split, drawn in pairs.items():
        source, target = (os.path.join(folder, f"{split}.{end}") for end in ("eng", language))
        for path, lines in zip((source, target), zip(*drawn, strict=True), strict=True):
            files.write(path, "".join(f"{line}\n" for line in lines))
        splits[split] = (source, target)
    return splits


def tatoeba_split(english: str) -> str:
    """Returns the split of an English sentence and of all its translations; it is the same in every release."""
    digest = hashlib.sha256(english.strip().encode()).hexdigest()
    return {0: "valid", 1: "test"}.get(int(digest, 16) % 100, "train")


def tatoeba_facts(language: str, base_url: str, folder: str) -> dict[str, str | int]:
    """Returns what a manifest says about a downloaded release, which has no published checksum. Raises OSError."""
    url, archive = _tatoeba_archive(language, base_url, folder)
    return {
        "url": url,
        "bytes": os.path.getsize(archive),
        "sha256": files.checksum(archive),
        "license": TATOEBA_LICENSE,
        "attribution": TATOEBA_ATTRIBUTION,
    }


def _tatoeba_archive(language: str, base_url: str, folder: str) -> tuple[str, str]:
    """Returns the address of a language's archive, and the path of its download."""
    name = f"{language}-eng.zip"
    return f"{base_url.rstrip('/')}/{name}", os.path.join(folder, name)
