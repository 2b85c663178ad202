"""What several test modules use, by subject; no test module imports another."""
