"""Helpers that several test modules share, one file per subject; no test module imports another."""
