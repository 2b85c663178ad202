"""Prepares parallel text as a corpus that training maps into memory."""
