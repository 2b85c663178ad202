"""The registry of attention mechanisms: one line for each."""

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from memattn.attention.options import arguments

if TYPE_CHECKING:
    from memattn.attention.base import AttentionMechanism

_ENTRIES = {
    "none": "memattn.attention.none:NoAttention",
    "bahdanau": "memattn.attention.bahdanau:BahdanauAttention",
    "luong": "memattn.attention.luong:LuongAttention",
    "luong_dot": "memattn.attention.luong_dot:LuongDotAttention",
    "memory": "memattn.attention.memory:MemoryAttention",
    "windowed_memory": "memattn.attention.windowed_memory:WindowedMemoryAttention",
    "nested_memory": "memattn.attention.nested_memory:NestedMemoryAttention",
    "memory_variant": "memattn.attention.memory_variants:MemoryVariantAttention",
    "local_m": "memattn.attention.local:LocalMonotonicAttention",
    "local_p": "memattn.attention.local:LocalPredictiveAttention",
    "location": "memattn.attention.location:LocationAttention",
    "feed_forward": "memattn.attention.feed_forward:FeedForwardAttention",
    "linear": "memattn.attention.linear:LinearAttention",
    "monotonic": "memattn.attention.monotonic:MonotonicAttention",
    "mocha": "memattn.attention.mocha:MochaAttention",
    "matcha": "memattn.attention.matcha:MatchaAttention",
}

# The mechanisms' classes and their base class, which are public -> the module of each.
CLASSES = {
    "AttentionMechanism": "memattn.attention.base",
    **{kind: module for module, _, kind in (entry.partition(":") for entry in _ENTRIES.values())},
}


class _Registry(MutableMapping[str, type["AttentionMechanism"]]):
    """Maps names to classes; one that is given as "module:Class" is imported when it is looked up.

    A reference "module:Class" to a mechanism outside the package is a name, too, though not one of those listed. Any
    value may be looked up, also one without a hash. Raises KeyError for other names, ImportError for what cannot be
    imported.
    """

    def __init__(self, entries: dict[str, "str | type[AttentionMechanism]"]):
        self._entries = dict(entries)

    def __getitem__(self, name: Any) -> type["AttentionMechanism"]:
        if is_reference(name):
            return _outside(name)
        if name not in self:
            raise KeyError(name)
        mechanism = self._entries[name]
        return _imported(mechanism) if isinstance(mechanism, str) else mechanism

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


MECHANISMS = _Registry(_ENTRIES)

if importlib.util.find_spec("tensorflow_addons"):  # the extra `addons`
    MECHANISMS["tfa_bahdanau"] = "memattn.attention.addons:AddonsBahdanauAttention"
    MECHANISMS["tfa_luong"] = "memattn.attention.addons:AddonsLuongAttention"


def is_reference(name: Any) -> bool:
    """Whether a name is a reference "module:Class" to a mechanism outside the package."""
    return isinstance(name, str) and ":" in name


def _imported(entry: str) -> type["AttentionMechanism"]:
    module, _, kind = entry.partition(":")
    try:
        return getattr(importlib.import_module(module), kind)
    except AttributeError as error:
        raise ImportError(f"{module} has no class {kind}; see memattn/attention/registry.py") from error


def _outside(reference: str) -> type["AttentionMechanism"]:
    """Returns the class of a reference; modules in the current directory are found as `python -m` finds them."""
    from memattn.attention.base import AttentionMechanism

    name, _, kind = reference.partition(":")
    if not (name and kind.isidentifier()):
        raise ImportError("expected module:Class, such as my_package.my_module:MyAttention")
    with contextlib.suppress(OSError):  # of a current directory that was removed
        if not {"", os.getcwd()} & set(sys.path):
            sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(name)
    except Exception as error:  # of any kind: it is code
        raise ImportError(f"module {name} cannot be imported: {type(error).__name__}: {error}") from error
    if not hasattr(module, kind):
        raise ImportError(f"module {name} has no class {kind}")
    mechanism = getattr(module, kind)
    if not (isinstance(mechanism, type) and issubclass(mechanism, AttentionMechanism)):
        raise ImportError(f"{kind} of module {name} is no memattn.AttentionMechanism")
    return mechanism


def build(name: str, options: dict, **facts) -> "AttentionMechanism":
    """Returns the mechanism of that name, given those of the `facts` that its constructor has as arguments.

    Raises:
      ImportError: the mechanism, or a library that it needs, cannot be imported.
      TypeError, ValueError: the name or an option is unknown, or an option is out of range.
    """
    if name not in MECHANISMS and not is_reference(name):
        raise ValueError(f"attention: {name!r} is none of {', '.join(MECHANISMS)}")
    mechanism = MECHANISMS[name]
    accepted = arguments(mechanism)
    return mechanism(**options, **{fact: value for fact, value in facts.items() if fact in accepted})
