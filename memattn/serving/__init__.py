"""Translates lines and scores pairs with a trained model, and exports the model."""
