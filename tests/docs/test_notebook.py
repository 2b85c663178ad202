"""The notebook runs from its first cell to its last, and its committed outputs are of the same cells."""

import re

import nbclient
import nbformat
import pytest
from helpers.repository import ROOT

pytestmark = pytest.mark.slow

PATH = ROOT / "docs" / "memory_attention.ipynb"


@pytest.fixture(scope="module")
def committed():
    return nbformat.read(PATH, as_version=4)


def codes(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout")


def pictures(cell):
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


def shares(text):
    """The percentages of the models that a cell prints, by name."""
    return {
        name.strip(): float(share) for name, share in re.findall(r"^(.{14}) .*?([\d.]+)%", text, flags=re.MULTILINE)
    }


def test_the_notebook_was_committed_as_it_ran(committed):
    nbformat.validate(committed)
    numbers = [cell.execution_count for cell in codes(committed)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert sum(map(pictures, codes(committed))) >= 6
    assert not any(output.output_type == "error" for cell in codes(committed) for output in cell.outputs)
    assert PATH.stat().st_size < 500_000


def test_the_notebook_runs_and_shows_what_its_text_says(committed):
    notebook = nbformat.from_dict(committed)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(PATH.parent)}}).execute()
    for own, before in zip(codes(notebook), codes(committed), strict=True):
        assert pictures(own) == pictures(before)
        assert bool(printed(own)) == bool(printed(before))
    found = [shares(printed(cell)) for cell in codes(notebook)]
    right, exact = (one for one in found if one)
    for models, behind in ((right, 1), (exact, 10)):
        assert set(models) == {"Bahdanau", "memory, K = 8", "memory, K = 1"}
        assert models["Bahdanau"] > 95
        assert models["memory, K = 8"] > 90
        assert models["memory, K = 1"] < models["memory, K = 8"] - behind
