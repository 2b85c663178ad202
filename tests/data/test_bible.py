"""The recipe of the Bible, with two small modules in SWORD's format."""

import json
import struct
import zlib

import bible
import pytest
from helpers import debian as fake_debian
from helpers.files import lines_of
from helpers.repository import ROOT, run_python

from memattn.data import corpus


def write_module(folder, testaments):
    """Writes a module whose testaments are lists of blocks, which are lists of entries."""
    folder.mkdir(parents=True)
    for testament, blocks in testaments.items():
        starts = places = compressed = b""
        for number, entries in enumerate(blocks):
            text = b""
            for entry in map(str.encode, entries):
                places += struct.pack("<IIH", number if entry else 0, len(text), len(entry))
                text += entry
            block = zlib.compress(text)
            starts += struct.pack("<III", len(compressed), len(block), len(text))
            compressed += block
        for kind, content in {"s": starts, "v": places, "z": compressed}.items():
            (folder / f"{testament}.bz{kind}").write_bytes(content)


def block(book, chapters):
    """The entries of a book: headings, and the verses of each chapter."""
    entries = [f'<div canonical="true" osisID="{book}" sID="gen1" type="book"/> <title level="1">{book}</title>']
    for number, verses in enumerate(chapters, 1):
        entries += [f'<chapter n="{number}" osisID="{book}.{number}" sID="{book}.{number}"/>', *verses]
    return entries


def chapter(book, verses, word):
    return [f'<w lemma="strong:H{i:04}">{word}</w> {i} of {book}.' for i in range(verses)]


@pytest.mark.slow
def test_one_command_downloads_and_prepares_joined_verses(tmp_path):
    archive = tmp_path / "archive"
    archive.mkdir()
    for (package, folder), word in zip(bible.PACKAGES.items(), ("word", "palabra"), strict=True):
        books = {
            "ot": [block(book, [chapter(book, 9, word), chapter(f"{book} 2", 4, word)]) for book in ("Gen", "Ruth")],
            "nt": [block(book, [chapter(book, 6, word)]) for book in ("Matt", "Jas")],
        }
        start = ["", '<milestone type="x-importer"/>']
        testaments = {testament: [start, *blocks] for testament, blocks in books.items()}
        write_module(tmp_path / package / folder, testaments)
        fake_debian.write_package(archive / f"{package}_1.0_all.deb", tmp_path / package)
    command = [ROOT / "data/bible.py", "--workers=1", "--bpe_units=40", "--verses=4"]
    environment = {**fake_debian.environment(archive), "PYTHONPATH": str(ROOT)}
    result = run_python(*command, folder=tmp_path, env=environment)
    assert result.returncode == 0, result.stderr
    assert "_1.0_all.deb: not the version that the documentation describes" in result.stderr
    folder = tmp_path / "data/bible.en-es.4"
    assert lines_of(folder / "test.reference") == [
        "palabra 0 of Jas. palabra 1 of Jas. palabra 2 of Jas. palabra 3 of Jas.",
        "palabra 4 of Jas. palabra 5 of Jas.",
    ]
    manifest = json.loads((folder / corpus.MANIFEST).read_text())
    assert (manifest["counts"]["train"]["pairs"], manifest["counts"]["valid"]["pairs"]) == (4 + 2, 4)
    assert manifest["release"]["train_source_words"] == "5 (10%), 16 (50%), 19 (90%), 19 (99%)"
    assert manifest["release"]["license"] == bible.TERMS
    log = (archive / "log").read_text()
    assert log == "apt-get update\napt-get download sword-text-kjv sword-text-sparv\n"


def test_the_text_of_an_entry_is_without_markup_and_notes():
    entry = (
        '<title canonical="true" type="psalm">A <w lemma="strong:H4210">Psalm</w>.</title> <l level="1"/>¶ The \\nd '
        '<divineName>LORD</divineName><note placement="foot">Heb. <b>so</b></note> is<lb/>great &amp; good. <title>BETH'
        "</title>"
    )
    assert bible.plain(entry) == "A Psalm. The LORD is great & good."


def verse(name, *numbers):
    return " ".join(f'<w lemma="strong:H{number:04}">{name}</w>' for number in numbers)


def test_chapters_that_count_verses_differently_are_left_out(tmp_path):
    same = [verse("a", 1, 2), verse("b", 3, 4), verse("c", 5, 6)]
    shifted = [same[0], "<l/>", same[1]]
    short = [*same[:2], '<chapter eID="Gen.3"/>']
    for name, chapters in (("en", [same, same, same]), ("es", [same, shifted, short])):
        write_module(tmp_path / name, {"ot": [block("Gen", chapters)], "nt": [block("Matt", [same])]})
    verses = list(bible.verses(str(tmp_path / "en"), str(tmp_path / "es")))
    assert [verse.aligned for verse in verses] == [True] * 3 + [True, False, False] + [True, True, False] + [True] * 3
    chapters = [verse.chapter for verse in bible.aligned(verses)]
    assert chapters == ["Gen.1"] * 3 + ["Gen.3"] * 2 + ["Matt.1"] * 3
