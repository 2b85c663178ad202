"""Checks what a preparation records of the release that it downloaded."""

import hashlib
import json

from memattn.data import corpus


def assert_recorded(result, folder, *, url, content, license_, attribution):
    """Checks that a command printed the origin of an English-German corpus and recorded it; returns the manifest."""
    sha256 = hashlib.sha256(content).hexdigest()
    facts = {"url": url, "license": license_, "attribution": attribution, "sha256": sha256}
    assert all(f"\n{name}: {fact}\n" in result.stdout for name, fact in facts.items())
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
