"""memattn: attention with a fixed-size memory for sequence-to-sequence models, in TensorFlow.

The names in this module and in `memattn.layers` are the public interface; subpackages and their modules are internal
and may change. TensorFlow is imported on first use of a name, so that commands answer --help at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memattn.api import evaluate_model, train_model
    from memattn.attention import *  # noqa: F403
    from memattn.models.seq2seq import Seq2Seq, Seq2SeqConfig
    from memattn.search.beam_search import beam_search
    from memattn.search.sampling import sample
    from memattn.serving.translator import load

__version__ = "0.3.0"

_MODULES = {  # modules of the public names, beside the mechanisms, whose names end with Attention
    "AttentionMechanism": "memattn.attention",
    "Seq2Seq": "memattn.models.seq2seq",
    "Seq2SeqConfig": "memattn.models.seq2seq",
    "SlotMemory": "memattn.attention",
    "beam_search": "memattn.search.beam_search",
    "evaluate_model": "memattn.api",
    "load": "memattn.serving.translator",
    "sample": "memattn.search.sampling",
    "train_model": "memattn.api",
}


def __getattr__(name: str) -> Any:
    module = "memattn.attention" if name.endswith("Attention") else _MODULES.get(name, "")
    if not module or not hasattr(public := importlib.import_module(module), name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(public, name)


def __dir__() -> list[str]:
    from memattn.attention import MECHANISMS

    return sorted([*_MODULES, *(mechanism.__name__ for mechanism in MECHANISMS.values())])
