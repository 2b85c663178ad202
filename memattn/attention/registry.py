"""The registry of attention mechanisms: one line for each."""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memattn.attention.base import AttentionMechanism

_ENTRIES = {
    "none": "memattn.attention.none:NoAttention",
    "bahdanau": "memattn.attention.bahdanau:BahdanauAttention",
    "luong": "memattn.attention.luong:LuongAttention",
    "luong_dot": "memattn.attention.luong_dot:LuongDotAttention",
    "memory": "memattn.attention.memory:MemoryAttention",
    "windowed_memory": "memattn.attention.windowed_memory:WindowedMemoryAttention",
    "stretch_means": "memattn.attention.stretch_means:StretchMeansAttention",
    "latents": "memattn.attention.latents:LatentsAttention",
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

# The public classes, which are the mechanisms and their base class, and the module of each.
CLASSES = {
    "AttentionMechanism": "memattn.attention.base",
    **{class_name: module for module, _, class_name in (entry.partition(":") for entry in _ENTRIES.values())},
}


class _Registry(MutableMapping[str, type["AttentionMechanism"]]):
    """Maps the names of mechanisms to their classes.

    An entry is a class, or a str "module:Class" that is imported when it is looked up. A name may itself be a reference
    "module:Class" to a mechanism outside the package; such names are not listed. Any value may be looked up, even an
    unhashable one. Raises KeyError for an unknown name, ImportError for a class that cannot be imported.
    """

    def __init__(self, entries: Mapping[str, "str | type[AttentionMechanism]"]):
        self._entries = dict(entries)

    def __getitem__(self, name: Any) -> type["AttentionMechanism"]:
        if is_reference(name):
            return _outside_class(name)
        if name not in self:
            raise KeyError(name)
        entry = self._entries[name]
        return _class(entry) if isinstance(entry, str) else entry

    def __contains__(self, name: Any) -> bool:
        return isinstance(name, str) and (name in self._entries or is_reference(name))

    def __setitem__(self, name: str, mechanism: "str | type[AttentionMechanism]") -> None:
        self._entries[name] = mechanism

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


MECHANISMS = _Registry(_ENTRIES)


def is_reference(name: Any) -> bool:
    """Returns whether a name is a reference "module:Class" to a mechanism outside the package."""
    return isinstance(name, str) and ":" in name


def _class(entry: str) -> type["AttentionMechanism"]:
    """Imports the class of an entry "module:Class". Raises ImportError."""
    module_name, _, class_name = entry.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # of any kind: importing runs the user's code
        raise ImportError(f"module {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    if not hasattr(module, class_name):
        raise ImportError(f"module {module_name} has no class {class_name}")
    return getattr(module, class_name)


def _outside_class(reference: str) -> type["AttentionMechanism"]:
    """Imports the class of a reference; as for `python -m`, its module may be in the current directory."""
    from memattn.attention.base import AttentionMechanism

    module_name, _, class_name = reference.partition(":")
    if not (module_name and class_name.isidentifier()):
        raise ImportError("expected module:Class, such as my_package.my_module:MyAttention")
    with contextlib.suppress(OSError):  # the current directory was removed
        if not {"", os.getcwd()} & set(sys.path):
            sys.path.append(os.getcwd())
    mechanism = _class(reference)
    if not (isinstance(mechanism, type) and issubclass(mechanism, AttentionMechanism)):
        raise ImportError(f"{class_name} of module {module_name} is no memattn.AttentionMechanism")
    return mechanism


def build(name: str, options: dict, **facts) -> "AttentionMechanism":
    """Returns a mechanism, made with options and with facts of the model.

    Args:
      name: name in the registry, or a reference "module:Class".
      options: constructor arguments.
      **facts: further constructor arguments; those that the constructor does not have are left out.

    Raises:
      ImportError: the mechanism, or a library that it needs, cannot be imported.
      TypeError, ValueError: the name or an option is unknown, or an option is out of range.
    """
    if name not in MECHANISMS:
        raise ValueError(f"attention: {name!r} is none of {', '.join(MECHANISMS)}")
    mechanism = MECHANISMS[name]
    if given := [fact for fact in facts if fact in options]:
        raise TypeError(f"attention: {given[0]} is no option; the model gives it to the mechanism")
    accepted = mechanism.constructor_arguments()
    return mechanism(**options, **{fact: value for fact, value in facts.items() if fact in accepted})
