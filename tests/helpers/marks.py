"""Marks of parameters."""

import pytest


def slow(*values):
    """Marks a parameter, or several of one case, as one of slow tests."""
    return pytest.param(*values, marks=pytest.mark.slow)
