"""The registry of attention mechanisms: one line for each."""

import importlib
import importlib.util
import inspect
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memattn.attention.base import AttentionMechanism


class _Registry(MutableMapping[str, type["AttentionMechanism"]]):
    """Maps names to classes. A class may be given as "module:class", which a look-up imports (or raises ImportError).

    A name of any type may be asked for, also one that has no hash.
    """

    def __init__(self, entries: dict[str, "str | type[AttentionMechanism]"]):
        self._entries = dict(entries)

    def __getitem__(self, name: Any) -> type["AttentionMechanism"]:
        if name not in self:
            raise KeyError(name)
        mechanism = self._entries[name]
        if isinstance(mechanism, str):
            module, _, attribute = mechanism.partition(":")
            try:
                mechanism = getattr(importlib.import_module(module), attribute)
            except AttributeError as error:
                raise ImportError(f"{module} has no class {attribute}; see memattn/attention/registry.py") from error
        return mechanism

    def __contains__(self, name: Any) -> bool:
        return isinstance(name, str) and name in self._entries

    def __setitem__(self, name: str, mechanism: "str | type[AttentionMechanism]") -> None:
        self._entries[name] = mechanism

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


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
    if name not in MECHANISMS:
        raise ValueError(f"attention: {name!r} is none of {', '.join(MECHANISMS)}")
    mechanism = MECHANISMS[name]
    accepted = inspect.signature(mechanism).parameters
    return mechanism(**options, **{fact: value for fact, value in facts.items() if fact in accepted})
