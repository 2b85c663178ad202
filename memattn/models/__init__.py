"""The sequence-to-sequence model, and one step of it."""
