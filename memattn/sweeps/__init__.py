"""Expands a config with a grid into runs, trains and evaluates them, and writes one table."""
