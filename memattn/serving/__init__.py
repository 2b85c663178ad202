"""Translates lines with a trained model, and exports it."""
