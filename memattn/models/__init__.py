"""Models: the sequence-to-sequence model and its parts, ensembles, and the interface that they share."""
