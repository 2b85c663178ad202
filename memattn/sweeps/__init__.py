"""Sweeps: a config with a grid into runs, their training, and one table."""
