"""Attention mechanisms behind one interface; each has a class, and a line of `MECHANISMS`."""

import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from typing import Any

from memattn.attention.base import AttentionMechanism, NoAttention
from memattn.attention.content import (
    BahdanauAttention,
    LocalMonotonicAttention,
    LocalPredictiveAttention,
    LocationAttention,
    LuongAttention,
    LuongDotAttention,
)
from memattn.attention.latents import LatentsAttention
from memattn.attention.memory import MemoryAttention
from memattn.attention.mocha import MatchaAttention, MochaAttention
from memattn.attention.monotonic import MonotonicAttention
from memattn.attention.pooling import FeedForwardAttention, LinearAttention
from memattn.attention.windowed_memory import SlotMemory, StretchMeansAttention, WindowedMemoryAttention
from memattn.options import OptionError, arguments, not_one_of
from memattn.options import Range as Range

__all__ = [
    "AttentionMechanism",
    "BahdanauAttention",
    "FeedForwardAttention",
    "LatentsAttention",
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
    "SlotMemory",
    "StretchMeansAttention",
    "WindowedMemoryAttention",
]

MECHANISMS: dict[str, type[AttentionMechanism]] = {
    "none": NoAttention,
    "bahdanau": BahdanauAttention,
    "luong": LuongAttention,
    "luong_dot": LuongDotAttention,
    "memory": MemoryAttention,
    "windowed_memory": WindowedMemoryAttention,
    "stretch_means": StretchMeansAttention,
    "latents": LatentsAttention,
    "local_m": LocalMonotonicAttention,
    "local_p": LocalPredictiveAttention,
    "location": LocationAttention,
    "feed_forward": FeedForwardAttention,
    "linear": LinearAttention,
    "monotonic": MonotonicAttention,
    "mocha": MochaAttention,
    "matcha": MatchaAttention,
}

DEFAULT = "memory"  # the mechanism of a mapping without `name`
_NAME = inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, annotation=str)
MODEL_ARGUMENTS = ("units", "max_source_length", "initializer")  # arguments that the model gives, not a config


def mechanism(name: Any) -> type[AttentionMechanism]:
    """Returns the class of a name in `MECHANISMS`, or of a reference "module:Class" to a class outside the package.

    As for `python -m`, the module may be in the current directory. Raises OptionError.
    """
    if isinstance(name, str) and ":" in name:
        return _outside_class(name)
    if name not in list(MECHANISMS):  # a list compares names that have no hash, too
        raise OptionError("attention.name", not_one_of(name, MECHANISMS))
    return MECHANISMS[name]


def _outside_class(reference: str) -> type[AttentionMechanism]:
    """Returns the class of a reference to a class outside the package."""
    module_name, _, class_name = reference.partition(":")
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # of any kind: importing runs the user's code
        problem = f"module {module_name!r} of module:Class cannot be imported: {type(error).__name__}: {error}"
        raise OptionError("attention.name", f"{reference}: {problem}") from error
    kind = getattr(module, class_name, None)
    if not (isinstance(kind, type) and issubclass(kind, AttentionMechanism)):
        problem = f"module {module_name} has no memattn.AttentionMechanism {class_name}"
        raise OptionError("attention.name", f"{reference}: {problem}")
    return kind


def config_arguments(kind: type[AttentionMechanism]) -> dict[str, inspect.Parameter]:
    """Returns the arguments of a mechanism's constructor that a config sets, by name."""
    return {name: each for name, each in kind.constructor_arguments().items() if name not in MODEL_ARGUMENTS}


def complete(attention: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the name of a mechanism and all of its options; those that are not given have their defaults.

    Raises OptionError.
    """
    if not isinstance(attention, Mapping):
        raise OptionError("attention", f"expected a mapping such as {{name: bahdanau}}, not {attention!r:.80}")
    name = attention.get("name", DEFAULT)
    known = config_arguments(mechanism(name))
    try:
        given = arguments({**known, "name": _NAME}, attention, name)
        for option, parameter in known.items():
            if option not in given and parameter.default is parameter.empty:
                raise OptionError(option, f"missing; {name} needs it")
    except OptionError as error:
        raise OptionError(f"attention.{error.option}", error.problem) from error
    return {"name": name, **{option: given.get(option, parameter.default) for option, parameter in known.items()}}


def build(name: str, options: Mapping[str, Any], **given: Any) -> AttentionMechanism:
    """Returns the mechanism of a name, as `mechanism` takes it, with options of its constructor.

    `given` are further arguments, from the model; those that the constructor does not have are left out. Raises
    OptionError.
    """
    kind = mechanism(name)
    known = kind.constructor_arguments()
    return kind(**options, **{name: value for name, value in given.items() if name in known})
