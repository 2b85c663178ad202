"""Parallel text into a corpus that training maps into memory."""
