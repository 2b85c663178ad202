"""Times systems in turns on the same work, and counts lower bounds of that work."""
