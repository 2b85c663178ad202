"""Translates lines with a trained model, and exports the model."""
