"""Beam search, a corpus through it, and translation."""
