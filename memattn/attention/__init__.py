"""Attention mechanisms behind one interface; each has a file and a line of the registry.

A class, and TensorFlow with it, is imported when its name is first used, so that `import memattn.config` stays fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

from memattn.attention.options import OptionError
from memattn.attention.registry import CLASSES, MECHANISMS, build

if TYPE_CHECKING:
    from memattn.attention.bahdanau import BahdanauAttention
    from memattn.attention.base import AttentionMechanism
    from memattn.attention.feed_forward import FeedForwardAttention
    from memattn.attention.latents import LatentsAttention
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
    from memattn.attention.stretch_means import StretchMeansAttention
    from memattn.attention.windowed_memory import WindowedMemoryAttention

__all__ = ["MECHANISMS", "OptionError", "build", *CLASSES]


def __getattr__(name: str) -> Any:
    if name not in CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = {module: importlib.import_module(module) for module in CLASSES.values()}  # all, so that Keras knows them
    return getattr(modules[CLASSES[name]], name)
