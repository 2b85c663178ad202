"""What the recipes in data/ share: downloads, archives, and removal of copies from splits."""

import gc
import hashlib
import os

import pytest
import recipes
import web
from helpers.files import tar_gz

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
