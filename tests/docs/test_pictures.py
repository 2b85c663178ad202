"""The pictures of the documents are there, are small, and are shown by a page."""

import os
import re

import numpy as np
import pytest
from helpers.pages import EVERY_PAGE
from helpers.repository import ROOT
from matplotlib.testing.compare import compare_images
from studies.pictures import PICTURES

from memattn.evaluation import styles

DIAGRAM = "docs/pictures/memory_attention.svg"


def shown():
    """Returns the paths, from the root of the repository, of the files that pages link to."""
    paths = set()
    for page in EVERY_PAGE:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                paths.add((page.parent / target).resolve())
    return {str(path.relative_to(ROOT)) for path in paths if path.is_relative_to(ROOT)}


def test_every_picture_exists_and_is_shown_and_those_of_the_pages_are_small():
    committed = list((ROOT / "docs/pictures").glob("*.*"))
    names = {path for path in [*PICTURES, DIAGRAM] if path.startswith("docs/pictures/")}
    assert {str(path.relative_to(ROOT)) for path in committed} == names
    assert max(path.stat().st_size for path in committed) < 100_000
    for path in [*PICTURES, DIAGRAM]:
        assert (ROOT / path).exists(), f"{path}: run python scripts/write_docs.py"
        assert path in shown(), path


@pytest.mark.slow
@pytest.mark.parametrize("path", PICTURES)
def test_a_picture_is_drawn_from_the_committed_tables(path, tmp_path):
    drawn = tmp_path / os.path.basename(path)
    PICTURES[path](str(drawn))
    if path.endswith(".png"):
        assert compare_images(str(ROOT / path), str(drawn), tol=2) is None
        return
    committed, again = (numbers(file) for file in (ROOT / path, drawn))
    np.testing.assert_allclose(again, committed, atol=0.5)


def numbers(svg):
    """The coordinates of all paths, and the colours of all of an SVG's elements."""
    text = re.sub(r"<defs>.*?</defs>", "", svg.read_text(encoding="utf-8"), flags=re.DOTALL)  # without letters
    coordinates = re.findall(r"-?[0-9]+\.[0-9]+", " ".join(re.findall(r' d="([^"]*)"', text)))
    colours = re.findall(r"(?:fill|stroke): #([0-9a-f]{6})", text)
    return [*map(float, coordinates), *(int(colour, 16) for colour in colours)]


def test_the_diagram_has_the_colours_of_the_plots():
    diagram = (ROOT / DIAGRAM).read_text(encoding="utf-8")
    for mechanism in ("memory", "bahdanau"):
        assert styles.STYLES[mechanism].colour in diagram
