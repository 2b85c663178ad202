"""A test set decoded and scored, with tables and pictures of what came out."""
