"""The training loop, one update, validation, devices, and sweeps of runs."""
