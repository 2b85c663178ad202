"""The notebook runs from start to end, and its committed outputs come from the committed cells."""

import re

import nbclient
import nbformat
import pytest
from helpers.repository import ROOT

pytestmark = pytest.mark.slow

PATH = ROOT / "docs/start/how_it_works.ipynb"


@pytest.fixture(scope="module")
def committed():
    """The notebook as it is committed, with its outputs."""
    return nbformat.read(PATH, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout")


def num_pictures(cell):
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


def percentages(text):
    """Returns the percentages that a cell prints, by the name of the model."""
    pairs = re.findall(r"^(.{14}) .*?([\d.]+)%", text, flags=re.MULTILINE)
    return {name.strip(): float(percentage) for name, percentage in pairs}


def test_the_committed_notebook_was_run_from_start_to_end_without_errors(committed):
    nbformat.validate(committed)
    numbers = [cell.execution_count for cell in code_cells(committed)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert sum(map(num_pictures, code_cells(committed))) >= 6
    assert not any(output.output_type == "error" for cell in code_cells(committed) for output in cell.outputs)
    assert PATH.stat().st_size < 500_000


@pytest.mark.long
def test_the_notebook_runs_and_its_models_differ_as_its_text_says(committed):
    notebook = nbformat.from_dict(committed)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(PATH.parent)}}).execute()
    for cell, committed_cell in zip(code_cells(notebook), code_cells(committed), strict=True):
        assert num_pictures(cell) == num_pictures(committed_cell)
        assert bool(printed(cell)) == bool(printed(committed_cell))
    percentages_by_cell = [percentages(printed(cell)) for cell in code_cells(notebook)]
    right_tokens, exact_copies = filter(None, percentages_by_cell)
    for by_model, least_difference in ((right_tokens, 1), (exact_copies, 10)):
        assert set(by_model) == {"Bahdanau", "memory, K = 8", "memory, K = 1"}
        assert by_model["Bahdanau"] > 95
        assert by_model["memory, K = 8"] > 90
        assert by_model["memory, K = 1"] < by_model["memory, K = 8"] - least_difference
