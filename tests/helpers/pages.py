"""Pages of docs/ and their code blocks, and the browser in which pages are tested."""

import re
import shutil

import pytest

from helpers.repository import ROOT

EVERY_PAGE = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
API = ("reference/api.md", "reference/layers.md", "reference/search.md")
PAGES = {
    name: (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in (*API, "reference/configuration.md", "reference/commands.md")
}


def blocks(page, language):
    """The code blocks of a page that are in this language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page], flags=re.DOTALL)


def run_block(text, tmp_path, monkeypatch, replacements=()):
    """Runs, in tmp_path, the block of the reference that contains this text; returns the names that it defines.

    `replacements` are pairs of a text in the block and what stands in its place.
    """
    monkeypatch.chdir(tmp_path)
    (code,) = [block for page in API for block in blocks(page, "python") if text in block]
    for old, new in replacements:
        assert old in code
        code = code.replace(old, new)
    namespace = {}
    exec(code, namespace)
    return namespace


def browser():
    """Returns the path of an installed browser; skips the test if there is none."""
    names = "chromium", "chromium-browser", "google-chrome"
    path = next(filter(None, map(shutil.which, names)), None)
    if not path:
        pytest.skip(f"needs one of {', '.join(names)}")
    return path
