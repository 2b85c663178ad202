"""Prepares the Bible, English to Spanish, with any number of verses in an example: the same text, longer sources.

python data/bible.py --verses 4

The text is that of Debian's packages sword-text-kjv (King James Version) and sword-text-sparv (Reina-Valera, 1909),
which apt downloads. Both have the words' numbers in Strong's concordance. They show where the versions count verses
differently: such verses are left out, and chapters with several of them.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import html
import itertools
import os
import re
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import debian
import recipes
from absl import flags

from memattn.data.preparation.commands import define_text_flags

DOWNLOADS = "data/downloads/bible"
PACKAGES = {  # and the folder of the text in each
    "sword-text-kjv": "usr/share/sword/modules/texts/ztext/engKJV2006eb",
    "sword-text-sparv": "usr/share/sword/modules/texts/ztext/spaRV1909eb",
}
CHECKSUMS = {
    "sword-text-kjv_14.3-1_all.deb": "9f463f28ce665f6f528fc723179722bced880a4c5485f7a41bf742838315de57",
    "sword-text-sparv_2.60-1_all.deb": "5c87f9b2bc97457e8a872f5bae7ea7ce59cb3de1dcee73e4d4740451863694cf",
}
TERMS = "public domain (in the United Kingdom, printing the King James Version needs permission)"
# Stories, wisdom, prophets and letters, about 1,000 verses in each split. No law, kings or gospels: these books are
# long, and repeat each other.
BOOKS = {
    "valid": ["Ruth", "Song", "Lam", "Dan", "Gal", "Phil", "1Pet"],
    "test": ["Esth", "Eccl", "Joel", "Amos", "Jonah", "Heb", "Jas"],
}


class Verse(NamedTuple):
    """A verse in both languages; `aligned` says whether the texts correspond."""

    chapter: str  # such as Gen.1
    source: str
    target: str
    aligned: bool


def main() -> None:
    options = flags.FLAGS
    options.folder = options.folder.replace("{verses}", str(options.verses))
    downloads = debian.packages(list(PACKAGES), DOWNLOADS)
    with tempfile.TemporaryDirectory() as unpacked:
        for package in downloads:
            debian.unpack(package, unpacked)
        every = list(verses(*(os.path.join(unpacked, folder) for folder in PACKAGES.values())))
    kept = aligned(every)
    print(f"{len(every) - len(kept):,} of {len(every):,} verses left out, because the versions count them differently")
    splits = examples(kept, options.verses)
    text = f"{DOWNLOADS}/{options.verses}"
    recipes.prepare(options, splits, ("en", "es"), downloads, CHECKSUMS, TERMS, text)


def verses(english: str, spanish: str) -> Iterator[Verse]:
    """Yields the verses of two texts in their order, also where one has no text for a verse."""
    for testament in ("ot", "nt"):
        chapter = ""
        for source, target in zip(entries(english, testament), entries(spanish, testament), strict=True):
            if heading := re.search(r'osisID="(\S+)" sID=', source):  # of a book or a chapter
                chapter = heading[1]
            elif chapter and source:
                text = plain(target)
                yield Verse(chapter, plain(source), text, bool(text) and similar(source, target))


def entries(folder: str, testament: str) -> list[str]:
    """Returns the entries of a testament in SWORD's format zText: for each verse, and for headings, XML or nothing.

    Three files hold compressed blocks (z), their starts and sizes (s), and for each entry its block, its start in the
    text of the block and its size (v). Numbers are little-endian.
    """
    blocks, positions, compressed = (Path(folder, f"{testament}.bz{kind}").read_bytes() for kind in "svz")
    texts = [zlib.decompress(compressed[start : start + size]) for start, size, _ in struct.iter_unpack("<III", blocks)]
    return [texts[block][start : start + size].decode() for block, start, size in struct.iter_unpack("<IIH", positions)]


def plain(entry: str) -> str:
    """Returns the text of an entry, without notes, and without titles except those of psalms."""
    text = re.sub(r"<note\b.*?</note>|<title(?! canonical)\b.*?</title>", "", entry, flags=re.DOTALL)
    text = re.sub(r"<(lb|l|lg|div)\b[^>]*>", " ", text)
    text = re.sub(r"<[^>]*>|¶|\\\w+ ", "", text)  # also what is left of another markup, such as "\nd LORD"
    return " ".join(html.unescape(text).split())


def similar(source: str, target: str) -> bool:
    """Returns whether the entry with fewer different words of the original shares at least half of them."""
    # Words have numbers in Strong's concordance.
    source_words, target_words = (set(re.findall(r"\b[GH]\d+", entry)) for entry in (source, target))
    return 2 * len(source_words & target_words) >= min(len(source_words), len(target_words))


def aligned(every: list[Verse]) -> list[Verse]:
    """Returns the verses that correspond, of chapters with at most one that does not.

    Where two do not, the versions count the verses of the chapter differently.
    """
    kept = []
    for _, group in itertools.groupby(every, lambda verse: verse.chapter):
        chapter = list(group)
        good = [verse for verse in chapter if verse.aligned]
        kept += good if len(good) >= len(chapter) - 1 else []
    return kept


def examples(kept: list[Verse], size: int) -> dict[str, recipes.Pairs]:
    """Returns the pairs of each split, of so many consecutive verses of a book; its last may have fewer."""
    split_of = {book: split for split, books in BOOKS.items() for book in books}
    splits: dict[str, recipes.Pairs] = {"train": [], "valid": [], "test": []}
    for book, group in itertools.groupby(kept, lambda verse: verse.chapter.partition(".")[0]):
        text = list(group)
        for start in range(0, len(text), size):
            joined = text[start : start + size]
            pair = " ".join(verse.source for verse in joined), " ".join(verse.target for verse in joined)
            splits[split_of.get(book, "train")].append(pair)
    return splits


if __name__ == "__main__":
    flags.DEFINE_integer("verses", 1, "Number of verses in an example.", lower_bound=1)
    define_text_flags("data/bible.en-es.{verses}", bpe_units=8_000, max_length=recipes.MAX_LENGTH)
    cli.run(main)
