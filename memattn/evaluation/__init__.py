"""Decodes and scores a test set; tables and pictures of the results."""
