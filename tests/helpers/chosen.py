"""Mechanisms chosen by --mechanism: conformance tests run on them in place of the registered ones."""

CHOSEN: list[str] = []  # set by conftest.py before any test module is imported
