"""Mechanisms of --mechanism, which conformance tests then run on in place of the registered ones."""

CHOSEN: list[str] = []  # set by conftest.py before any test module is imported
