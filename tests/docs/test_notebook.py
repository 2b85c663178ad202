"""The notebooks run from start to end, and their committed outputs come from the committed cells.

`make test-backends` runs the one on slots on JAX; elsewhere, it runs on TensorFlow.
"""

import os
import re

import nbclient
import nbformat
import pytest
from helpers.repository import ROOT

pytestmark = pytest.mark.slow


def path(name):
    return ROOT / "docs/start" / f"{name}.ipynb"


def committed(name):
    """Returns a notebook as it is committed, with its outputs."""
    return nbformat.read(path(name), as_version=4)


def executed(name):
    """Runs a notebook; returns it with its outputs."""
    notebook = committed(name)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path(name).parent)}}).execute()
    for cell, committed_cell in zip(code_cells(notebook), code_cells(committed(name)), strict=True):
        assert num_pictures(cell) == num_pictures(committed_cell)
        assert bool(printed(cell)) == bool(printed(committed_cell))
    return notebook


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


@pytest.mark.parametrize(
    ("name", "pictures", "size"), [("how_it_works", 6, 500_000), ("slots_in_a_transformer", 3, 150_000)]
)
def test_a_committed_notebook_was_run_from_start_to_end_without_errors(name, pictures, size):
    notebook = committed(name)
    nbformat.validate(notebook)
    numbers = [cell.execution_count for cell in code_cells(notebook)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert sum(map(num_pictures, code_cells(notebook))) >= pictures
    assert not any(output.output_type == "error" for cell in code_cells(notebook) for output in cell.outputs)
    assert path(name).stat().st_size < size


@pytest.mark.long
def test_the_models_of_the_first_notebook_differ_as_its_text_says():
    percentages_by_cell = [percentages(printed(cell)) for cell in code_cells(executed("how_it_works"))]
    right_tokens, exact_copies = filter(None, percentages_by_cell)
    for by_model, least_difference in ((right_tokens, 1), (exact_copies, 10)):
        assert set(by_model) == {"Bahdanau", "memory, K = 8", "memory, K = 1"}
        assert by_model["Bahdanau"] > 95
        assert by_model["memory, K = 8"] > 90
        assert by_model["memory, K = 1"] < by_model["memory, K = 8"] - least_difference


@pytest.mark.long
def test_the_models_of_the_notebook_on_slots_differ_as_its_text_says():
    text = "".join(printed(cell) for cell in code_cells(executed("slots_in_a_transformer")))
    right = {name: float(percentage) for name, percentage in re.findall(r"^(\w+ \w+) +([\d.]+)%", text, re.MULTILINE)}
    assert set(right) == {"all states", "10 slots", "5 slots"}
    assert min(right["all states"], right["10 slots"]) > 98
    assert 80 < right["5 slots"] < right["10 slots"]
    assert f" on {os.environ.get('KERAS_BACKEND', 'tensorflow')}\n" in text
