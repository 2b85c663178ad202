"""Preparation of IWSLT 2017, whose archive a local server has in the layout of the real release."""

import hashlib
import io
import random
import subprocess
import sys
import tarfile

import pytest
from helpers.files import contents, lines_of
from helpers.releases import assert_recorded
from helpers.repository import ROOT

from memattn.data.preparation.releases import iwslt17
from memattn.errors import DataError

PATH = "/texts/en/de/en-de.tgz"
TALK = """\
<doc docid="1" genre="lectures">
<url>http://www.ted.com/talks/a_talk</url>
<keywords>talks, climate &amp; weather</keywords>
<speaker>A Speaker</speaker>
<talkid>1</talkid>
<title>A Speaker: A talk</title>
<description>TED Talk Subtitles and Transcript: What a talk.</description>
{}
<reviewer href="http://www.ted.com/profiles/1">A Reviewer</reviewer>
<translator href="http://www.ted.com/profiles/2">A Translator</translator>
</doc>
"""


def sentences(count, words, seed):
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=6)) + f" {number}." for number in range(count)]


ENGLISH = sentences(100, ["We", "saw", "the", "old", "house", "again"], seed=1)
GERMAN = sentences(100, ["Wir", "sahen", "das", "alte", "Haus", "wieder"], seed=2)


def training_file(lines):
    """A training file with two talks; every line has blanks around it, as in the release."""
    talks = TALK.format("\n".join(lines[:40])) + TALK.format("\n".join(lines[40:]))
    return "".join(f" {line} \n" for line in talks.splitlines())


def xml(lines):
    """A validation or test file."""
    segments = "".join(f'<seg id="{number}"> {line}    </seg>\n' for number, line in enumerate(lines, 1))
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<refset setid="a-set" srclang="english">\n'
    return f"{head}{TALK.format(segments)}</refset>\n</mteval>\n"


def release():
    """The files of the pair en-de by name: 100 training pairs, 10 validation pairs, and 5 test pairs of each year."""
    files = {}
    for language, lines in (("en", ENGLISH), ("de", GERMAN)):
        files[f"train.tags.en-de.{language}"] = training_file(lines)
        files[f"IWSLT17.TED.dev2010.en-de.{language}.xml"] = xml(lines[:10])
        for year in range(2010, 2016):
            start = 5 * (year - 2008)
            files[f"IWSLT17.TED.tst{year}.en-de.{language}.xml"] = xml(lines[start : start + 5])
    return files


def archive(files):
    content, readme = io.BytesIO(), random.Random(1).randbytes(20_000)  # more than a connection's first block
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, text in {"README": readme, **files}.items():
            data = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(f"en-de/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return content.getvalue()


def checksum(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def fetch(server, tmp_path, monkeypatch):
    """A function that serves an archive of files as the release, and returns the files of the splits."""

    def fetch(files):
        server.contents[PATH] = archive(files)
        monkeypatch.setitem(iwslt17.SHA256, "en-de", checksum(server.contents[PATH]))
        return iwslt17.fetch("en-de", f"{server.url}/texts", str(tmp_path))

    return fetch


def test_a_language_pair_is_downloaded_and_prepared(server, tmp_path):
    content = server.contents[PATH] = archive(release())
    server.cuts = {PATH: [9_000]}
    code = (
        "from memattn import prepare\n"
        "from memattn.data.preparation.releases import iwslt17\n"
        f"iwslt17.SHA256['en-de'] = '{checksum(content)}'\n"
        "prepare.main()\n"
    )
    options = ("--base_url", f"{server.url}/texts/", "--bpe_units", 80, "--workers", 1)
    folders = ("--download_dir", tmp_path / "downloads", "--folder", tmp_path / "{pair}")

    def prepare():
        command = [*map(str, [sys.executable, "-c", code, "iwslt17", *options, *folders])]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    result = prepare()
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "en-de"
    manifest = assert_recorded(
        result,
        folder,
        url=f"{server.url}{PATH}",
        content=content,
        license_="CC BY-NC-ND 4.0",
        attribution="TED (www.ted.com) and WIT3 (wit3.fbk.eu)",
    )
    assert {split: counts["pairs"] for split, counts in manifest["counts"].items()} == {
        "train": 100,
        "valid": 10,
        "test": 30,
    }
    assert lines_of(folder / "valid.reference") == GERMAN[:10]
    assert lines_of(folder / "test.reference") == GERMAN[10:40]
    requests = list(server.requests)
    assert [path for path, _ in requests] == [PATH, PATH]
    assert 0 < requests[1][1] < len(content)  # resumed
    before = contents(tmp_path)
    again = prepare()
    assert (again.returncode, again.stdout, server.requests) == (0, result.stdout, requests)
    assert contents(tmp_path) == before


def test_lines_about_a_talk_are_no_sentences(fetch):
    splits = fetch(release())
    assert [lines_of(path) for path in splits["train"]] == [ENGLISH, GERMAN]


def test_escaped_characters_are_restored(fetch):
    files = release()
    for name, written in files.items():
        files[name] = written.replace(ENGLISH[0], "R&amp;D &lt;3 &quot;yes&quot; &#233;").replace(GERMAN[0], "&apos;A")
    splits = fetch(files)
    for split in ("train", "valid"):
        assert [lines_of(path)[0] for path in splits[split]] == ['R&D <3 "yes" é', "'A"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("AT&T & sons", "AT&T & sons"),
        ("2 < 3 and 4 <5", "2 < 3 and 4 <5"),
        ("one <i>word</i>", "one word"),
        ("two\n  lines", "two lines"),
        ("two  blanks\u00a0and\u3000wide", "two  blanks\u00a0and\u3000wide"),
        ("a line\u2028separator", "a line\u2028separator"),
        ("", ""),
    ],
)
def test_segments_need_not_be_valid_xml(fetch, written, expected):
    files = release()
    files["IWSLT17.TED.dev2010.en-de.de.xml"] = xml([*GERMAN[:3], written, *GERMAN[4:10]])
    assert lines_of(fetch(files)["valid"][1]) == [*GERMAN[:3], expected, *GERMAN[4:10]]


def test_segments_may_share_a_line(fetch):
    files = release()
    for language in ("en", "de"):
        name = f"IWSLT17.TED.dev2010.en-de.{language}.xml"
        files[name] = files[name].replace("</seg>\n<seg", "</seg><seg")
    assert lines_of(fetch(files)["valid"][0]) == ENGLISH[:10]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "train.tags.en-de.de",
            training_file(GERMAN[1:]),
            "train.tags.en-de.en has 100 sentences, but .*train.tags.en-de.de has 99",
        ),
        (
            "IWSLT17.TED.tst2014.en-de.en.xml",
            xml(ENGLISH[:6]),
            "tst2014.en-de.en.xml has 6 sentences, but .*tst2014.en-de.de.xml has 5",
        ),
        ("train.tags.en-de.en", b"Gr\xfc\xdf Gott\n", "train.tags.en-de.en:1: not UTF-8 text: byte 0xfc"),
        ("IWSLT17.TED.dev2010.en-de.en.xml", None, "en-de.tgz: holds no file IWSLT17.TED.dev2010.en-de.en.xml"),
    ],
)
def test_a_broken_release_is_refused(fetch, tmp_path, name, content, problem):
    files = release()
    files[name] = content
    with pytest.raises(DataError, match=problem):
        fetch({name: content for name, content in files.items() if content is not None})
    assert not (tmp_path / "en-de" / "test.en").exists()


def test_a_release_without_sentences_is_refused(fetch):
    with pytest.raises(DataError, match=r"train.tags.en-de.en: no sentences"):
        fetch({name: TALK.format("").replace("\n\n", "\n") for name in release()})


def test_an_archive_of_another_checksum_is_refused(server, tmp_path):
    server.contents[PATH] = archive(release())
    with pytest.raises(DataError, match=r"en-de.tgz: not the file that it should be: its SHA-256 is "):
        iwslt17.fetch("en-de", f"{server.url}/texts", str(tmp_path))


def test_a_server_that_refuses_the_program_is_reported_with_the_way_out(server, tmp_path):
    with pytest.raises(DataError, match=f"404 Not Found; .*a file that you put at {tmp_path}"):
        iwslt17.fetch("fr-en", f"{server.url}/texts", str(tmp_path))
    assert server.requests[0][0] == "/texts/fr/en/fr-en.tgz"
