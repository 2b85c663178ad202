"""Parameters of tests: their marks, and the mechanisms that --mechanism chooses in place of the registered ones."""

import pytest

CHOSEN: list[str] = []  # set by conftest.py before any test module is imported


def slow(*values):
    """Marks a parameter, or all parameters of a case, as slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def long(*values):
    """Marks a parameter, or all parameters of a case, as long."""
    return pytest.param(*values, marks=pytest.mark.long)
