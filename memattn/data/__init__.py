"""Turns text into token ids, and ids into batches."""
