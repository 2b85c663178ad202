"""Beam search and sampling over any step function, and searches of batches and corpora with a model."""
