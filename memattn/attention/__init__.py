"""Attention mechanisms behind one interface: one file, and one line of the registry, for each.

Classes, and TensorFlow with them, are imported on first use: not by `import memattn.config`, but by checking a
config's attention section.
"""

import importlib
from typing import TYPE_CHECKING, Any

from memattn.attention.options import OptionError
from memattn.attention.registry import CLASSES, MECHANISMS, build

if TYPE_CHECKING:
    from memattn.attention.bahdanau import BahdanauAttention
    from memattn.attention.base import AttentionMechanism
    from memattn.attention.feed_forward import FeedForwardAttention
    from memattn.attention.linear import LinearAttention
    from memattn.attention.local import LocalMonotonicAttention, LocalPredictiveAttention
    from memattn.attention.location import LocationAttention
    from memattn.attention.luong import LuongAttention
    from memattn.attention.luong_dot import LuongDotAttention
    from memattn.attention.matcha import MatchaAttention
    from memattn.attention.memory import MemoryAttention
    from memattn.attention.memory_variants import MemoryVariantAttention
    from memattn.attention.mocha import MochaAttention
    from memattn.attention.monotonic import MonotonicAttention
    from memattn.attention.nested_memory import NestedMemoryAttention
    from memattn.attention.none import NoAttention
    from memattn.attention.windowed_memory import WindowedMemoryAttention

__all__ = ["MECHANISMS", "OptionError", "build", *CLASSES]


def __getattr__(name: str) -> Any:
    if name not in CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = {module: importlib.import_module(module) for module in CLASSES.values()}
    return getattr(modules[CLASSES[name]], name)  # with it, Keras can load the others from a file
