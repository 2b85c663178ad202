"""Active memory: models in which every position of the memory changes at every step."""
