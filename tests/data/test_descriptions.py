"""The recipes of descriptions and synopses, with short lists of descriptions."""

import hashlib
import json

import debian
import descriptions
import pytest
from helpers import debian as fake_debian
from helpers.files import lines_of
from helpers.repository import ROOT, run_python

from memattn.data import corpus
from memattn.errors import ConfigError, RunError

# Families by their split.
FAMILIES = {"train": [f"lib{name}" for name in ("foo", "bar", "baz", "qux")], "valid": ["slepc"], "test": ["pandoc"]}


def entry(language, package, synopsis, *paragraphs, english=None):
    """An entry of a list; `english` identifies the English description, which is that of the package by default."""
    checksum = hashlib.md5((english or package).encode()).hexdigest()  # noqa: S324
    text = " .\n".join(f" {paragraph}\n" for paragraph in paragraphs)
    return f"Package: {package}\nDescription-md5: {checksum}\nDescription-{language}: {synopsis}\n{text}\n"


@pytest.fixture
def archive(tmp_path):
    """A folder with lists in two languages, and programs that stand in for apt's."""
    folder = tmp_path / "archive"
    folder.mkdir()
    packages = [package for family in FAMILIES.values() for package in family]
    for language, words in {"en": "is a tool", "it": "è uno strumento"}.items():
        entries = [
            entry(language, package, f"{package} in short", f"{package} {words}\n for many", " * more")
            for package in packages
        ]
        (folder / f"site_dists_stable_main_Translation-{language}").write_text("".join(entries))
        (folder / f"site_dists_updates_main_Translation-{language}").write_text(entries[0])
    return folder


def run(recipe, archive):
    command = [ROOT / "data" / recipe, "--workers", "1", "--bpe_units", "40"]
    environment = {**fake_debian.environment(archive), "PYTHONPATH": str(ROOT)}
    return run_python(*command, folder=archive.parent, env=environment)


@pytest.mark.slow
def test_descriptions_and_synopses_are_downloaded_and_prepared(archive, tmp_path):
    result = run("descriptions.py", archive)
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "data/descriptions.en-it"
    assert lines_of(folder / "valid.reference") == ["slepc è uno strumento for many * more"]
    assert lines_of(folder / "test.reference") == ["pandoc è uno strumento for many * more"]
    manifest = json.loads((folder / corpus.MANIFEST).read_text())
    assert manifest["counts"]["train"]["pairs"] == 4
    assert {"stable_main_Translation-en", "stable_main_Translation-it"} < manifest["release"].keys()
    configuration = (archive / "apt.conf").read_text()
    assert '#clear Acquire::Languages;\nAcquire::Languages { "en"; "it"; };\n' in configuration

    (archive / "log").unlink()
    result = run("synopses.py", archive)
    assert result.returncode == 0, result.stderr
    assert lines_of(tmp_path / "data/synopses.en/test.reference") == ["pandoc in short"]
    assert not (archive / "log").exists()  # the list was there


def test_what_apt_lacks_or_fails_to_do_is_said(archive, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", fake_debian.environment(archive)["PATH"])
    with pytest.raises(RunError, match="the archive has no descriptions in 'fr', or cannot be reached; put "):
        debian.descriptions(["en", "fr"], str(tmp_path / "lists"))
    (archive / "apt-get").write_text("#!/bin/sh\necho 'W: slow' >&2\necho 'E: no network' >&2\nexit 100\n")
    with pytest.raises(RunError, match="^apt-get: E: no network$"):
        debian.descriptions(["it"], str(tmp_path / "lists"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="apt-get is missing.* put Translation-de, unpacked, into .*lists"):
        debian.descriptions(["de"], str(tmp_path / "lists"))


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
