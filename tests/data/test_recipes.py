"""Downloads, archives and the removal of copies from splits, which the recipes in data/ share; the recipe of WMT'17."""

import gc
import gzip
import hashlib
import json
import os

import pytest
import recipes
import web
import wmt17
from helpers.files import lines_of, tar_gz
from helpers.repository import ROOT, run_python
from helpers.texts import sentences

from memattn.data import corpus
from memattn.errors import DataError

SHA256 = hashlib.sha256(b"text").hexdigest()


def test_a_file_that_is_there_is_used_and_another_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    for checksum in (SHA256, f"md5:{hashlib.md5(b'text').hexdigest()}", None):  # noqa: S324
        web.fetch({"file": checksum}, "https://nowhere.invalid", str(tmp_path))
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(DataError, match=f"file: its checksum is not {SHA256}; remove it"):
        web.fetch({"file": SHA256}, "https://nowhere.invalid", str(tmp_path))
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pooch does not close connections
@pytest.mark.parametrize(
    ("contents", "problem"), [({"file": b"other"}, "SHA256 hash of downloaded file"), ({}, "404 Client Error")]
)
def test_a_file_that_the_server_lacks_or_has_changed_is_named(serve, tmp_path, contents, problem):
    url = serve(contents)
    expected = f"^{url}/file: {problem}.*; try again, or first put into {tmp_path} what is missing: file, other$"
    with pytest.raises(DataError, match=expected):
        web.fetch({"file": SHA256, "other": SHA256}, url, str(tmp_path))
    assert os.listdir(tmp_path) == []
    gc.collect()


@pytest.mark.parametrize(
    "content",
    [tar_gz({"../outside": b"x"}), tar_gz({"a": b"x" * 999})[:60], b"no archive"],
    ids=["outside", "truncated", "no archive"],
)
def test_an_archive_that_is_damaged_or_leads_out_of_its_folder_is_refused(tmp_path, content):
    (tmp_path / "a.tgz").write_bytes(content)
    with pytest.raises(DataError, match="a.tgz: not a complete tar archive"):
        web.extract(str(tmp_path / "a.tgz"), str(tmp_path / "inside"))
    assert os.listdir(tmp_path) == ["a.tgz"]


def test_a_source_or_a_target_of_the_test_is_in_no_other_split():
    splits = {
        "train": [("a", "1"), ("b", "2"), ("c", "3"), ("c", "4")],
        "valid": [("d", "1"), ("e", "5")],
        "test": [("a", "6"), ("f", "2"), ("f", "7")],
    }
    distinct, left_out = recipes.without_copies(splits)
    assert distinct == {"train": [("c", "3")], "valid": [("d", "1"), ("e", "5")], "test": [("a", "6"), ("f", "2")]}
    assert left_out == {"duplicates": 4, "near_copies": 0}
    assert list(distinct) == ["train", "valid", "test"]


def test_nearly_the_same_source_is_left_out_of_training_unless_only_training_has_it():
    first, second = ([f"{letter}{number}" for number in range(20)] for letter in "ab")
    near, half = [*first[:15], "x"], [*first[:10], *second[:10]]
    splits = {
        "train": [(" ".join(words), str(number)) for number, words in enumerate([near, half, second, [*second, "x"]])],
        "valid": [("c", "c")],
        "test": [(" ".join(first), "first")],
    }
    distinct, left_out = recipes.without_copies(splits)
    assert [target for _, target in distinct["train"]] == ["1", "2", "3"]
    assert left_out == {"duplicates": 0, "near_copies": 1}


ENGLISH, FOREIGN = (sentences(600, seed) for seed in (1, 2))


def text(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def release(language):
    """Files of a language pair by path: 500 training pairs, of which one is empty, 50 validation and 50 test pairs."""
    dev = {}
    for name, start in ((wmt17.VALIDATION[f"en-{language}"], 500), ("newstest2016", 550)):
        dev[f"dev/{name}.tc.en"] = text(ENGLISH[start : start + 50])
        dev[f"dev/{name}.tc.{language}"] = text(FOREIGN[start : start + 50])
    folder = f"{language}-en"
    return {
        f"{folder}/corpus.tc.en.gz": gzip.compress(text([*ENGLISH[:249], "", *ENGLISH[250:500]])),
        f"{folder}/corpus.tc.{language}.gz": gzip.compress(text(FOREIGN[:500])),
        f"{folder}/dev.tgz": tar_gz(dev),
    }


@pytest.mark.slow
def test_a_language_pair_is_downloaded_and_prepared(serve, tmp_path):
    folder = "data/wmt17.en-tr"
    flags = ["--pair", "en-tr", "--base_url", serve(release("tr")), "--bpe_units", "100", "--workers", "1"]
    result = run_python(ROOT / "data/wmt17.py", *flags, folder=tmp_path)
    assert "499 training pairs of 500 (1 empty and 0 of more than 200 units dropped)" in result.stdout
    advice = f"to train on it: memattn-train --config wmt17/en-tr --set data.folder={folder} --run_dir "
    assert result.stdout.splitlines()[-1] == f"{advice}runs/wmt17.en-tr"
    assert result.stderr.startswith("warning: en-tr has 500 training pairs, and 207,373 in the paper: ")
    assert len(lines_of(tmp_path / folder / "test.reference")) == 50
    manifest = json.loads((tmp_path / folder / corpus.MANIFEST).read_text())
    assert manifest["settings"]["text"]["form"] == "truecased"
    assert manifest["sources"]["train"][0]["path"] == "data/downloads/wmt17/tr-en/corpus.tc.en.gz"


@pytest.mark.parametrize("names", [["dev/x"], ["a/newstest2015.tc.en", "b/newstest2015.tc.en"]])
def test_a_file_of_the_archive_that_is_missing_or_there_twice_is_named(serve, tmp_path, names):
    url = serve({**release("de"), "de-en/dev.tgz": tar_gz(dict.fromkeys(names, b"a\n"))})
    with pytest.raises(DataError, match="de-en/dev: holds [02] files newstest2015.tc.en, not one"):
        wmt17.fetch("en-de", url, str(tmp_path))


def test_a_number_of_pairs_that_differs_from_that_of_the_paper_is_reported():
    assert wmt17.problem("en-tr", 207_373) is wmt17.problem("en-de", 5_852_458) is None
    assert "and 207,373 in the paper" in wmt17.problem("en-tr", 207_372)
    assert "and about 5,900,000 in the paper" in wmt17.problem("en-de", 5_800_000)
