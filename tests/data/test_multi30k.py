"""The download of Multi30k, from a local server in place of GitHub."""

import gzip
import hashlib

import pytest

from memattn.data.preparation import releases
from memattn.errors import DataError


@pytest.fixture
def captions(server, monkeypatch):
    """Captions by file name; the server has them compressed, and their checksums are the expected ones."""
    captions = {}
    for name in releases.multi30k.SHA256:
        captions[name] = f"a caption of {name}\n"
        server.contents[f"/raw/{name}"] = gzip.compress(captions[name].encode(), mtime=0)
        sha256 = hashlib.sha256(server.contents[f"/raw/{name}"]).hexdigest()
        monkeypatch.setitem(releases.multi30k.SHA256, name, sha256)
    return captions


def test_sources_are_english_and_targets_german(server, captions, tmp_path):
    splits = releases.multi30k.fetch(f"{server.url}/raw/", str(tmp_path))
    names = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    assert splits.keys() == names.keys()
    for split, (source, target) in splits.items():
        for path, language in ((source, "en"), (target, "de")):
            with gzip.open(path, "rt", encoding="utf-8") as file:
                assert file.read() == captions[f"{names[split]}.{language}.gz"]


def test_a_file_with_another_checksum_is_refused(server, captions, tmp_path):
    server.contents["/raw/val.de.gz"] = gzip.compress(b"another file")
    with pytest.raises(DataError, match=r"val.de.gz: not the file that it should be: its SHA-256 is"):
        releases.multi30k.fetch(f"{server.url}/raw", str(tmp_path))
