"""Generated parts of the documents."""
