"""Attention mechanisms behind one interface; each has a class, and a line of `MECHANISMS`."""

from typing import Any

from memattn.attention.base import AttentionMechanism
from memattn.attention.content import BahdanauAttention, LuongAttention, LuongDotAttention
from memattn.attention.feed_forward import FeedForwardAttention
from memattn.attention.latents import LatentsAttention
from memattn.attention.linear import LinearAttention
from memattn.attention.local import LocalMonotonicAttention, LocalPredictiveAttention
from memattn.attention.location import LocationAttention
from memattn.attention.matcha import MatchaAttention
from memattn.attention.memory import MemoryAttention
from memattn.attention.mocha import MochaAttention
from memattn.attention.monotonic import MonotonicAttention
from memattn.attention.none import NoAttention
from memattn.attention.options import OptionError as OptionError
from memattn.attention.outside import outside_class
from memattn.attention.stretch_means import StretchMeansAttention
from memattn.attention.windowed_memory import WindowedMemoryAttention

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


def mechanism(name: Any) -> type[AttentionMechanism]:
    """Returns the class of a name in `MECHANISMS`, or of a reference "module:Class" to a class outside the package.

    Raises ValueError for any other name, ImportError for a class that cannot be imported.
    """
    if isinstance(name, str) and ":" in name:
        return outside_class(name)
    if name not in list(MECHANISMS):  # a list compares names that have no hash, too
        raise ValueError(f"attention: {name!r} is none of {', '.join(MECHANISMS)}")
    return MECHANISMS[name]


def build(name: str, options: dict, **facts) -> AttentionMechanism:
    """Returns a mechanism, made with options and with facts of the model.

    Args:
      name: see `mechanism`.
      options: constructor arguments.
      **facts: further constructor arguments; those that the constructor does not have are left out.

    Raises:
      ImportError: the mechanism cannot be imported.
      TypeError, ValueError: the name or an option is unknown, or an option is out of range.
    """
    kind = mechanism(name)
    if given := [fact for fact in facts if fact in options]:
        raise TypeError(f"attention: {given[0]} is no option; the model gives it to the mechanism")
    accepted = kind.constructor_arguments()
    return kind(**options, **{fact: value for fact, value in facts.items() if fact in accepted})
