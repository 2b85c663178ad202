"""memattn: attention with a fixed-size memory for sequence-to-sequence models, in TensorFlow.

The names in this module are the public interface; subpackages and their modules are internal and may change.
TensorFlow is imported on first use of a name.
"""

import importlib
from typing import TYPE_CHECKING, Any

from memattn.attention.registry import CLASSES

if TYPE_CHECKING:
    from memattn.api import evaluate_model, train_model
    from memattn.attention import (
        AttentionMechanism,
        BahdanauAttention,
        FeedForwardAttention,
        LatentsAttention,
        LinearAttention,
        LocalMonotonicAttention,
        LocalPredictiveAttention,
        LocationAttention,
        LuongAttention,
        LuongDotAttention,
        MatchaAttention,
        MemoryAttention,
        MemoryVariantAttention,
        MochaAttention,
        MonotonicAttention,
        NestedMemoryAttention,
        NoAttention,
        StretchMeansAttention,
        WindowedMemoryAttention,
    )
    from memattn.models.seq2seq import Seq2Seq
    from memattn.search.beam_search import beam_search
    from memattn.search.sampling import sample
    from memattn.serving.translator import load

__version__ = "0.3.0"

_MODULES = {
    **dict.fromkeys(CLASSES, "memattn.attention"),
    "Seq2Seq": "memattn.models.seq2seq",
    "beam_search": "memattn.search.beam_search",
    "evaluate_model": "memattn.api",
    "load": "memattn.serving.translator",
    "sample": "memattn.search.sampling",
    "train_model": "memattn.api",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
