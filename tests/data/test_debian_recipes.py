"""The recipes of texts in Debian's archive: the Bible, as modules in SWORD's format; descriptions and synopses."""

import errno
import hashlib
import json
import os
import shutil
import struct
import sys
import tarfile
import zlib

import bible
import debian
import descriptions
import pytest
from helpers.files import lines_of
from helpers.repository import ROOT, run_python

from memattn.data import corpus
from memattn.errors import ConfigError, RunError

# Programs that stand in for apt-get and dpkg-deb; their packages are tar archives.
PROGRAMS = {
    "apt-get": """
import glob, os, shutil, sys
archive, (_, configuration, action, *names) = {archive!r}, sys.argv[1:]
print("apt-get", action, *names, file=open(os.path.join(archive, "log"), "a"))
if action == "update":
    shutil.copy(configuration, archive)
    for path in glob.glob(os.path.join(archive, "*Translation-*")):
        shutil.copy(path, "lists")
for name in names:
    packages = glob.glob(os.path.join(archive, name + "_*.deb")) or sys.exit("E: Unable to locate package " + name)
    shutil.copy(packages[0], ".")
""",
    "dpkg-deb": """
import sys, tarfile
tarfile.open(sys.argv[2]).extractall(sys.argv[3], filter="data")
""",
}


@pytest.fixture
def archive(tmp_path, program):
    """The folder that is apt-get's archive."""
    folder = tmp_path / "archive"
    folder.mkdir()
    for name, text in PROGRAMS.items():
        program(name, f"#!{sys.executable}\n{text.replace('{archive!r}', repr(str(folder)))}")
    return folder


def write_module(folder, testaments):
    """Writes a module whose testaments are lists of blocks, which are lists of entries."""
    folder.mkdir(parents=True)
    for testament, blocks in testaments.items():
        starts = positions = compressed = b""
        for number, entries in enumerate(blocks):
            text = b""
            for entry in map(str.encode, entries):
                positions += struct.pack("<IIH", number if entry else 0, len(text), len(entry))
                text += entry
            block = zlib.compress(text)
            starts += struct.pack("<III", len(compressed), len(block), len(text))
            compressed += block
        for kind, content in {"s": starts, "v": positions, "z": compressed}.items():
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
def test_one_command_downloads_and_prepares_joined_verses(tmp_path, archive):
    for (package, folder), word in zip(bible.PACKAGES.items(), ("word", "palabra"), strict=True):
        books = {
            "ot": [block(book, [chapter(book, 9, word), chapter(f"{book} 2", 4, word)]) for book in ("Gen", "Ruth")],
            "nt": [block(book, [chapter(book, 6, word)]) for book in ("Matt", "Jas")],
        }
        start = ["", '<milestone type="x-importer"/>']
        testaments = {testament: [start, *blocks] for testament, blocks in books.items()}
        write_module(tmp_path / package / folder, testaments)
        with tarfile.open(archive / f"{package}_1.0_all.deb", "w") as file:
            file.add(tmp_path / package, arcname=".")
    result = run_python(ROOT / "data/bible.py", "--workers=1", "--bpe_units=40", "--verses=4", folder=tmp_path)
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


# Families by their split.
FAMILIES = {"train": [f"lib{name}" for name in ("foo", "bar", "baz", "qux")], "valid": ["slepc"], "test": ["pandoc"]}


def entry(language, package, synopsis, *paragraphs, english=None):
    """An entry of a list; `english` identifies the English description, which is that of the package by default."""
    checksum = hashlib.md5((english or package).encode()).hexdigest()  # noqa: S324
    text = " .\n".join(f" {paragraph}\n" for paragraph in paragraphs)
    return f"Package: {package}\nDescription-md5: {checksum}\nDescription-{language}: {synopsis}\n{text}\n"


@pytest.fixture
def lists(archive):
    """Puts lists in two languages into the archive."""
    packages = [package for family in FAMILIES.values() for package in family]
    for language, words in {"en": "is a tool", "it": "è uno strumento"}.items():
        entries = [
            entry(language, package, f"{package} in short", f"{package} {words}\n for many", " * more")
            for package in packages
        ]
        (archive / f"site_dists_stable_main_Translation-{language}").write_text("".join(entries))
        (archive / f"site_dists_updates_main_Translation-{language}").write_text(entries[0])


@pytest.mark.slow
@pytest.mark.usefixtures("lists")
def test_descriptions_and_synopses_are_downloaded_and_prepared(archive, tmp_path):
    flags = ["--workers", "1", "--bpe_units", "40"]
    run_python(ROOT / "data/descriptions.py", *flags, folder=tmp_path)
    folder = tmp_path / "data/descriptions.en-it"
    assert lines_of(folder / "valid.reference") == ["slepc è uno strumento for many * more"]
    assert lines_of(folder / "test.reference") == ["pandoc è uno strumento for many * more"]
    manifest = json.loads((folder / corpus.MANIFEST).read_text())
    assert manifest["counts"]["train"]["pairs"] == 4
    assert {"stable_main_Translation-en", "stable_main_Translation-it"} < manifest["release"].keys()
    configuration = (archive / "apt.conf").read_text()
    assert '#clear Acquire::Languages;\nAcquire::Languages { "en"; "it"; };\n' in configuration

    (archive / "log").unlink()
    run_python(ROOT / "data/synopses.py", *flags, folder=tmp_path)
    assert lines_of(tmp_path / "data/synopses.en/test.reference") == ["pandoc in short"]
    assert not (archive / "log").exists()  # the list was there


@pytest.mark.usefixtures("lists")
def test_problems_of_apt_are_reported(program, tmp_path, monkeypatch):
    with pytest.raises(RunError, match="the archive has no descriptions in 'fr', or cannot be reached; put "):
        debian.descriptions(["en", "fr"], str(tmp_path / "lists"))
    program("apt-get", "#!/bin/sh\necho 'W: slow' >&2\necho 'E: no network' >&2\nexit 100\n")
    with pytest.raises(RunError, match="^apt-get: E: no network$"):
        debian.descriptions(["it"], str(tmp_path / "lists"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="apt-get is missing.* put Translation-de, unpacked, into .*lists"):
        debian.descriptions(["de"], str(tmp_path / "lists"))


@pytest.mark.usefixtures("lists")
def test_a_list_that_is_not_copied_completely_is_not_there(tmp_path, monkeypatch):
    def fill_disk(_, target):
        target.write(b"Package: ")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", fill_disk)
    with pytest.raises(OSError, match="No space left"):
        debian.descriptions(["it"], str(tmp_path / "lists"))
    assert os.listdir(tmp_path / "lists") == []


def test_a_translation_has_all_paragraphs():
    def translated(*paragraphs):
        source, target = (descriptions.Description("foo", "", list(text)) for text in (("one", "two"), paragraphs))
        return descriptions.translated(source, target)

    assert translated("uno", "due")
    assert translated("uno", "two")  # some paragraphs are lists of names
    for incomplete in (["one", "two"], ["uno"], ["uno", "due", "tre"], ["uno", "<trans>"]):
        assert not translated(*incomplete)


def test_a_family_of_packages_is_in_one_split():
    family = ["pandoc", "libpandoc2", "libpandoc-dev", "pandoc-doc", "python3-pandoc", "golang-github-pandoc-dev"]
    assert {descriptions.split_of(package) for package in family} == {"test"}
    assert {split: {descriptions.split_of(name) for name in names} for split, names in FAMILIES.items()} == {
        split: {split} for split in FAMILIES
    }
