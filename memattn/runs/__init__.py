"""Run folders: config, vocabulary and checkpoints, and the trained models that they hold."""
