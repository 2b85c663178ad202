"""Pages of docs/ and the code that they show."""

import re

from helpers.repository import ROOT

PAGES = {
    name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("api.md", "configuration.md", "search.md")
}


def blocks(page, language):
    """The code blocks of a page in this language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page], flags=re.DOTALL)


def run_block(text, tmp_path, monkeypatch):
    """Runs the python block of api.md that holds this text; returns its names."""
    monkeypatch.chdir(tmp_path)
    (code,) = [block for block in blocks("api.md", "python") if text in block]
    namespace = {}
    exec(code, namespace)
    return namespace
