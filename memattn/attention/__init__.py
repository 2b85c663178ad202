"""The registry of attention mechanisms: one file and one line here for each."""

import importlib.util
import inspect

from memattn.attention.bahdanau import BahdanauAttention
from memattn.attention.base import AttentionMechanism
from memattn.attention.luong import LuongAttention
from memattn.attention.luong_dot import LuongDotAttention
from memattn.attention.memory import MemoryAttention
from memattn.attention.none import NoAttention

MECHANISMS = {
    "none": NoAttention,
    "bahdanau": BahdanauAttention,
    "luong": LuongAttention,
    "luong_dot": LuongDotAttention,
    "memory": MemoryAttention,
}

if importlib.util.find_spec("tensorflow_addons"):  # the extra `addons`
    from memattn.attention.addons import AddonsBahdanauAttention, AddonsLuongAttention

    MECHANISMS |= {"tfa_bahdanau": AddonsBahdanauAttention, "tfa_luong": AddonsLuongAttention}

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


def build(name: str, options: dict, **facts) -> AttentionMechanism:
    """The mechanism of that name; of the `facts` it is given those that its constructor names.

    Raises:
      KeyError: the name is not registered.
      TypeError, ValueError: an option is unknown or out of range.
    """
    accepted = inspect.signature(MECHANISMS[name]).parameters
    return MECHANISMS[name](**options, **{fact: value for fact, value in facts.items() if fact in accepted})
