"""Attention mechanisms behind one interface: one file, and one line of the registry, for each.

Classes, and TensorFlow with them, are imported on first use: reading a config needs neither.
"""

import importlib
from typing import TYPE_CHECKING, Any

from memattn.attention.registry import MECHANISMS, build

if TYPE_CHECKING:
    from memattn.attention.bahdanau import BahdanauAttention
    from memattn.attention.base import AttentionMechanism
    from memattn.attention.luong import LuongAttention
    from memattn.attention.luong_dot import LuongDotAttention
    from memattn.attention.memory import MemoryAttention
    from memattn.attention.none import NoAttention

__all__ = [
    "MECHANISMS",
    "AttentionMechanism",
    "BahdanauAttention",
    "LuongAttention",
    "LuongDotAttention",
    "MemoryAttention",
    "NoAttention",
    "build",
]

_MODULES = {
    "AttentionMechanism": "base",
    "BahdanauAttention": "bahdanau",
    "LuongAttention": "luong",
    "LuongDotAttention": "luong_dot",
    "MemoryAttention": "memory",
    "NoAttention": "none",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = {own: importlib.import_module(f"memattn.attention.{own}") for own in _MODULES.values()}
    return getattr(modules[_MODULES[name]], name)  # with it, Keras can load the others from a file
