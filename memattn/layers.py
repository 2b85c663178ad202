"""The attention layers alone, for a model on any backend of Keras 3; they need no TensorFlow on JAX and PyTorch."""

from memattn.attention import *
from memattn.attention import __all__ as __all__
