"""The training loop, one update, validation, and devices."""
