"""Marks of parameters."""

import pytest


def slow(*values):
    """Marks a parameter, or all parameters of a case, as slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def long(*values):
    """Marks a parameter, or all parameters of a case, as long."""
    return pytest.param(*values, marks=pytest.mark.long)
