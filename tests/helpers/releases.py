"""Checks what a preparation records of the release that it downloaded."""

import hashlib
import json

from memattn.data import corpus


def assert_recorded(result, folder, *, url, content, license_, attribution):
    """Checks that a command printed the origin of an English-German corpus and recorded it; returns the manifest."""
    sha256 = hashlib.sha256(content).hexdigest()
    assert f"\n{url}: {license_}, {attribution}; SHA-256 {sha256}\n" in result.stdout
    manifest = json.loads((folder / corpus.MANIFEST).read_text())
    assert manifest["release"] == {
        "url": url,
        "bytes": len(content),
        "sha256": sha256,
        "license": license_,
        "attribution": attribution,
    }
    text = {"units": "bpe", "form": "raw", "source_language": "en", "target_language": "de"}
    assert manifest["settings"]["text"] == text
    return manifest
