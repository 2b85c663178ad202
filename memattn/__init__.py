"""memattn: attention with a fixed-size memory for sequence-to-sequence models, in TensorFlow."""

__version__ = "0.1.0"
