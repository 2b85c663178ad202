"""The site can be read on laptops and phones, and its links open: it is built by Sphinx, and measured in Chromium."""

import html
import json
import re
import shutil
import subprocess
import sys
import urllib.parse

import pytest
from helpers.pages import browser
from helpers.repository import ROOT

PHONE, LAPTOP = 400, 1366  # pixels

# Sends path and width of a page, and boxes that hold more than they show: what it is, its longest line, its text.
MEASURE = """<script>addEventListener("load", () => setTimeout(() => {
  const longest = (text) => Math.max(...text.split("\\n").map((line) => line.length));
  const scrolls = (box) => box.scrollWidth > box.clientWidth + 1;
  const boxes = [...document.querySelectorAll("pre, .table-wrapper")].filter(scrolls);
  const hidden = boxes.map((box) => [box.tagName, longest(box.innerText), box.innerText.slice(0, 60)]);
  if (scrolls(document.documentElement)) hidden.push(["HTML", 0, "the page"]);
  parent.postMessage([location.pathname, innerWidth, hidden], "*");
}, 100))</script></body>"""
COLLECT = """<pre id="sent"></pre><script>
addEventListener("message", (event) => document.getElementById("sent").append(JSON.stringify(event.data) + "\\n"));
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site."""
    pytest.importorskip("furo", reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("docs") / "site"
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", ROOT / "docs", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def hidden(site, tmp_path_factory):
    """The boxes of the site that scroll sideways, by (page, width of the window)."""
    program = browser()
    folder = tmp_path_factory.mktemp("measured")
    pages = []
    for path in pages_of(site):
        copy = folder / "site" / path.relative_to(site)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8").replace("</body>", MEASURE), encoding="utf-8")
        pages.append(copy)
    shutil.copytree(site / "_static", folder / "site" / "_static")
    frames = [f'<iframe src="{path.as_uri()}" width={width}></iframe>' for path in pages for width in (PHONE, LAPTOP)]
    (folder / "all.html").write_text(COLLECT + "".join(frames), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000", "--dump-dom"]
    command = [program, *flags, f"--user-data-dir={folder / 'profile'}", (folder / "all.html").as_uri()]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    lines = html.unescape(re.search(r'<pre id="sent">(.*?)</pre>', text, re.DOTALL)[1]).splitlines()
    assert len(lines) == len(frames)
    sent = map(json.loads, lines)
    return {(path.rpartition("/site/")[2], width): boxes for path, width, boxes in sent}


def pages_of(site):
    """Returns the paths of the pages, without those that show files."""
    return [path for path in site.rglob("*.html") if path.relative_to(site).parts[0] not in ("_modules", "files")]


@pytest.mark.slow
def test_links_open_pages_of_the_site(site):
    for page in pages_of(site):
        for tag in re.findall(r"<a [^>]*>", page.read_text(encoding="utf-8")):
            address = html.unescape(re.search(r'href="([^"#]*)', tag)[1])
            assert " download=" not in tag, (page, tag)
            assert re.match("https?:|mailto:", address) or (page.parent / urllib.parse.unquote(address)).exists(), tag


@pytest.mark.slow
def test_pages_fit_into_windows_and_lines_of_100_characters_into_that_of_a_laptop(hidden):
    for (page, width), boxes in hidden.items():
        assert "HTML" not in [kind for kind, *_ in boxes], page
        assert width != LAPTOP or [box for box in boxes if box[0] == "PRE" and box[1] <= 100] == [], page
