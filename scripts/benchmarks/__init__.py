"""Systems timed in turns on the same work, and the least work there is."""
