"""The registry of attention mechanisms: one line for each."""

import importlib
import importlib.util
import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memattn.attention.base import AttentionMechanism


class _Registry(dict):
    """Names to classes; one given as "module:class" is imported on first use, which may raise ImportError."""

    def __getitem__(self, name: str) -> type["AttentionMechanism"]:
        found = super().__getitem__(name)
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            try:
                found = getattr(importlib.import_module(module), attribute)
            except AttributeError as error:
                raise ImportError(f"{module} has no class {attribute}; see memattn/attention/registry.py") from error
        return found


MECHANISMS = _Registry(
    {
        "none": "memattn.attention.none:NoAttention",
        "bahdanau": "memattn.attention.bahdanau:BahdanauAttention",
        "luong": "memattn.attention.luong:LuongAttention",
        "luong_dot": "memattn.attention.luong_dot:LuongDotAttention",
        "memory": "memattn.attention.memory:MemoryAttention",
        "local_m": "memattn.attention.local:LocalMonotonicAttention",
        "local_p": "memattn.attention.local:LocalPredictiveAttention",
        "location": "memattn.attention.location:LocationAttention",
        "feed_forward": "memattn.attention.feed_forward:FeedForwardAttention",
        "linear": "memattn.attention.linear:LinearAttention",
        "monotonic": "memattn.attention.monotonic:MonotonicAttention",
        "mocha": "memattn.attention.mocha:MochaAttention",
        "matcha": "memattn.attention.matcha:MatchaAttention",
    }
)

if importlib.util.find_spec("tensorflow_addons"):  # the extra `addons`
    MECHANISMS["tfa_bahdanau"] = "memattn.attention.addons:AddonsBahdanauAttention"
    MECHANISMS["tfa_luong"] = "memattn.attention.addons:AddonsLuongAttention"


def build(name: str, options: dict, **facts) -> "AttentionMechanism":
    """The mechanism of that name, given those of the `facts` that its constructor has as arguments.

    Raises:
      ImportError: the mechanism's library cannot be imported.
      TypeError, ValueError: the name or an option is unknown, or an option is out of range.
    """
    if name not in list(MECHANISMS):  # of a list, since a name that is a list has no hash
        raise ValueError(f"attention: {name!r} is none of {', '.join(MECHANISMS)}")
    mechanism = MECHANISMS[name]
    accepted = inspect.signature(mechanism).parameters
    return mechanism(**options, **{fact: value for fact, value in facts.items() if fact in accepted})
