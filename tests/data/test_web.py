"""Downloads from a local server, and archives."""

import gc
import hashlib
import os

import pytest
import web
from helpers.files import tar_gz

from memattn.errors import DataError

SHA256 = hashlib.sha256(b"text").hexdigest()


def test_a_broken_download_is_repeated(server, tmp_path):
    server.contents, server.cuts = {"/a/file": b"text"}, {"/a/file": [1, 3]}
    web.fetch({"a/file": SHA256}, server.url, str(tmp_path))
    assert (tmp_path / "a" / "file").read_bytes() == b"text"
    assert server.requests == ["/a/file"] * 3


def test_a_file_that_is_there_is_used_and_another_is_refused(server, tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    for checksum in (SHA256, f"md5:{hashlib.md5(b'text').hexdigest()}", None):  # noqa: S324
        web.fetch({"file": checksum}, server.url, str(tmp_path))
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(DataError, match=f"file: its checksum is not {SHA256}; remove it"):
        web.fetch({"file": SHA256}, server.url, str(tmp_path))
    assert (tmp_path / "file").read_bytes() == b"mine"
    assert server.requests == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pooch does not close connections
@pytest.mark.parametrize(
    ("content", "problem"), [(b"other", "SHA256 hash of downloaded file"), (None, "404 Client Error")]
)
def test_a_file_that_the_server_lacks_or_has_changed_is_named(server, tmp_path, content, problem):
    if content:
        server.contents["/file"] = content
    expected = f"^{server.url}/file: {problem}.* takes a file that you put at {tmp_path}/file"
    with pytest.raises(DataError, match=expected):
        web.fetch({"file": SHA256}, server.url, str(tmp_path))
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


def test_an_archive_is_extracted_once(tmp_path):
    (tmp_path / "a.tgz").write_bytes(tar_gz({"b/file": b"x"}))
    for _ in range(2):
        web.extract(str(tmp_path / "a.tgz"), str(tmp_path / "a"))
        assert (tmp_path / "a" / "b" / "file").read_bytes() == b"x"
        (tmp_path / "a.tgz").write_bytes(b"")
