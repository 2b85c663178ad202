"""memattn: attention with a fixed-size memory for sequence-to-sequence models, in TensorFlow.

The names in this module are the public interface; everything below it is internal and may change. TensorFlow is
imported on first use of a name.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memattn.attention import (
        AttentionMechanism,
        BahdanauAttention,
        FeedForwardAttention,
        LinearAttention,
        LocalMonotonicAttention,
        LocalPredictiveAttention,
        LocationAttention,
        LuongAttention,
        LuongDotAttention,
        MatchaAttention,
        MemoryAttention,
        MochaAttention,
        MonotonicAttention,
        NoAttention,
    )
    from memattn.models.seq2seq import Seq2Seq
    from memattn.search.beam_search import beam_search
    from memattn.search.sampling import sample
    from memattn.serving.translator import load

__version__ = "0.3.0"
__all__ = [
    "AttentionMechanism",
    "BahdanauAttention",
    "FeedForwardAttention",
    "LinearAttention",
    "LocalMonotonicAttention",
    "LocalPredictiveAttention",
    "LocationAttention",
    "LuongAttention",
    "LuongDotAttention",
    "MatchaAttention",
    "MemoryAttention",
    "MochaAttention",
    "MonotonicAttention",
    "NoAttention",
    "Seq2Seq",
    "beam_search",
    "load",
    "sample",
]

_MODULES = {
    "Seq2Seq": "models.seq2seq",
    "beam_search": "search.beam_search",
    "load": "serving.translator",
    "sample": "search.sampling",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"memattn.{_MODULES.get(name, 'attention')}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
