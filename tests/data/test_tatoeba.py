"""Preparation of Tatoeba's sentence pairs, which a local server has in the layout of the real release."""

import io
import random
import zipfile

import pytest
from helpers.files import contents, lines_of
from helpers.releases import assert_recorded
from helpers.repository import assert_single_error, run_command

from memattn.data.preparation import download, releases
from memattn.errors import ConfigError, DataError
from memattn.prepare_commands import text

ABOUT = "** Info **\n\nAttribution: www.manythings.org/anki and tatoeba.org\n"


def rows(sentences, translations=2):
    """Lines of a release: English sentences, each with some translations, and attributions."""
    draw, results = random.Random(1), []
    for number in range(sentences):
        english = f"{' '.join(draw.choices(['We', 'saw', 'the', 'old', 'house', 'again'], k=5))} {number}."
        for _ in range(translations):
            german = " ".join(draw.choices(["Wir", "sahen", "das", "alte", "Haus", "wieder"], k=5))
            authors = f"CC-BY 2.0 (France) Attribution: tatoeba.org #{number} (CK) & #{draw.randrange(9999)} (Pfirsich)"
            results.append(f"{english}\t{german}.\t{authors}")
    return results


ROWS = rows(1500)


def zipped(members):
    """The bytes of a compressed zip archive, from texts by the names of members."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


def release(lines, name="deu.txt"):
    return zipped({name: "".join(f"{line}\n" for line in lines), "_about.txt": ABOUT})


@pytest.fixture
def server(server):
    server.contents = {"/anki/deu-eng.zip": release(ROWS)}
    return server


def tatoeba(server, tmp_path):
    return releases.tatoeba.fetch("deu", f"{server.url}/anki", str(tmp_path / "downloads"))


def prepare_tatoeba(server, folder, *arguments, language="deu"):
    return run_command(
        "memattn.prepare",
        *("tatoeba", "--language", language, "--base_url", f"{server.url}/anki/", "--bpe_units", 80, "--workers", 1),
        *("--download_dir", folder / "downloads", "--folder", folder / "{pair}", *arguments),
    )


def test_the_pairs_of_a_language_are_downloaded_and_prepared(server, tmp_path):
    server.cuts = {"/anki/deu-eng.zip": [9_000]}
    result = prepare_tatoeba(server, tmp_path)
    assert result.returncode == 0, result.stderr
    content = server.contents["/anki/deu-eng.zip"]
    folder = tmp_path / "en-de"
    assert_recorded(
        result,
        folder,
        url=f"{server.url}/anki/deu-eng.zip",
        content=content,
        license_="CC BY 2.0 FR",
        attribution="www.manythings.org/anki and tatoeba.org",
    )
    references = lines_of(folder / "test.reference")
    assert references == [
        line.split("\t")[1] for line in ROWS if releases.tatoeba.split_of(line.split("\t")[0]) == "test"
    ]
    requests = list(server.requests)
    assert [path for path, _ in requests] == ["/anki/deu-eng.zip"] * 2
    assert 0 < requests[1][1] < len(content)  # resumed
    before = contents(tmp_path)
    again = prepare_tatoeba(server, tmp_path)
    assert (again.returncode, again.stdout, server.requests) == (0, result.stdout, requests)
    assert contents(tmp_path) == before


def test_all_translations_of_a_sentence_are_in_one_split(server, tmp_path):
    splits = tatoeba(server, tmp_path)
    pairs = {split: list(zip(*map(lines_of, paths), strict=True)) for split, paths in splits.items()}
    assert sorted(pair for split in pairs.values() for pair in split) == sorted(
        tuple(line.split("\t")[:2]) for line in ROWS
    )
    sentences = {split: {english for english, _ in drawn} for split, drawn in pairs.items()}
    assert not sentences["train"] & (sentences["valid"] | sentences["test"])
    assert not sentences["valid"] & sentences["test"]
    for split in ("valid", "test"):
        assert 5 <= len(sentences[split]) <= 30  # about a hundredth of 1,500
        assert len(pairs[split]) == 2 * len(sentences[split])


def test_the_split_of_a_sentence_stays_in_all_versions():
    sentences = ("Hi.", "Hi!", "Be good.", " Be good. ", "Run!")
    assert [*map(releases.tatoeba.split_of, sentences)] == ["test", "train", "valid", "valid", "train"]


def test_an_archive_that_was_put_there_is_used(tmp_path):
    (tmp_path / "deu-eng.zip").write_bytes(release(ROWS))
    splits = releases.tatoeba.fetch("deu", "http://127.0.0.1:9", str(tmp_path))
    (tmp_path / "deu-eng.zip").write_bytes(release(ROWS[:-600]))
    assert releases.tatoeba.fetch("deu", "http://127.0.0.1:9", str(tmp_path)) == splits
    assert sum(len(lines_of(source)) for source, _ in splits.values()) == len(ROWS) - 600


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"<html>Not Acceptable!</html>", "deu-eng.zip: not a complete zip archive .*remove it"),
        (b"", "deu-eng.zip: not a complete zip archive"),
        (release(ROWS)[:-30], "deu-eng.zip: not a complete zip archive"),
        (release(ROWS)[:900] + bytes(50) + release(ROWS)[950:], "deu-eng.zip: not a complete zip archive"),
        (release(ROWS, name="fra.txt"), "deu-eng.zip: holds no file deu.txt"),
        (release([*ROWS[:7], "Hi.\tHallo!", *ROWS]), r"deu.txt:8: 2 columns, not 3, .*: sentence, translation, attrib"),
        (release([*ROWS, "Hi.\tHallo!\tCC-BY\t1"]), "deu.txt:3001: 4 columns, not 3"),
        (release([*ROWS[:7], "", *ROWS]), r"deu.txt:8: 1 columns, not 3"),
        (zipped({"deu.txt": b"Hi.\tGr\xfc\xdf Gott!\t\n"}), "deu.txt:1: not UTF-8 text: byte 0xfc"),
        (release(ROWS[:80]), r"deu.txt: too few pairs: of 80, \d fall to the split valid, which needs 10"),
        (release([]), "deu.txt: too few pairs: of 0"),
    ],
)
def test_a_broken_release_is_refused(server, tmp_path, content, problem):
    server.contents["/anki/deu-eng.zip"] = content
    with pytest.raises(DataError, match=problem):
        tatoeba(server, tmp_path)
    assert not list(tmp_path.rglob("train.*"))


def test_no_damage_of_an_archive_raises_another_error(tmp_path, times):
    whole, draw = release(ROWS[:30]), random.Random(1)
    path = tmp_path / "deu-eng.zip"
    for _ in range(times(short=300, full=30_000)):
        content = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            content[draw.choice([draw.randrange(len(whole)), -draw.randint(1, 160)])] = draw.randrange(256)
        path.write_bytes(content)
        try:
            download.unzip(str(path), "deu.txt", str(tmp_path))
        except DataError as error:
            assert str(path) in str(error)
        else:
            assert (tmp_path / "deu.txt").read_bytes().count(b"\n") == 30


@pytest.mark.parametrize("tags", [True, False])
def test_an_archive_without_a_length_is_checked_by_its_end(server, tmp_path, tags):
    server.length, server.tags = None, tags
    server.cuts = {"/anki/deu-eng.zip": [0, 9_000]}
    url, path = f"{server.url}/anki/deu-eng.zip", tmp_path / "deu-eng.zip"
    download.fetch(url, str(path), pause=0)
    assert path.read_bytes() == server.contents["/anki/deu-eng.zip"]
    assert len(server.requests) == 3
    server.contents["/page.zip"] = b"<html>Not Acceptable!</html>"
    download.fetch(f"{server.url}/page.zip", str(tmp_path / "page.zip"), pause=0)
    assert len(server.requests) == 4  # more of it would be no archive either


def test_an_unknown_language_is_reported_in_one_line(server, tmp_path):
    result = prepare_tatoeba(server, tmp_path, language="xyz")
    warning, result.stderr = result.stderr.split("\n", 1)
    assert warning == "warning: --language: Moses has no rules for 'xyz', and those of English are used"
    url = f"{server.url}/anki/xyz-eng.zip"
    by_hand = (
        f"the same command takes a file that you put at {tmp_path}/downloads/xyz-eng.zip, such as the download of a"
    )
    language = "--language is a code of the list at https://www.manythings.org/"
    assert_single_error(result, f"{url}: 404 Not Found; {by_hand} browser; {language}")
    assert not (tmp_path / "en-xyz").exists()


def test_a_server_that_refuses_the_program_is_reported_with_the_way_out(server, tmp_path):
    server.statuses = {"/anki/deu-eng.zip": [406]}
    with pytest.raises(DataError, match=f"406 Not Acceptable; .*a file that you put at {tmp_path}/downloads"):
        tatoeba(server, tmp_path)


@pytest.mark.parametrize(
    ("code", "right"), [("de", "deu"), ("german", "deu"), ("DEU", "deu"), ("eng", "deu or"), ("../", "deu or")]
)
def test_a_code_of_another_form_is_refused(code, right):
    with pytest.raises(ConfigError, match=f"--language: '{code}' is not the code .* three letters: {right}"):
        text._language_of_tatoeba(code)
