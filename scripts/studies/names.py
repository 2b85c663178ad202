"""Names models with attention as tables do, and reads these names."""

import re
from collections.abc import Mapping
from typing import Any

_WORDS = {"windowed_memory": "windowed", "stretch_means": "stretch means", "latents": "latents"}


def model(mechanism: Mapping[str, Any]) -> str:
    """Returns the name that tables give to the model with an attention mechanism."""
    if not is_memory(mechanism):
        return mechanism["name"]
    slots = f"K={mechanism['num_slots']}"
    if mechanism["name"] in _WORDS:
        return f"{_WORDS[mechanism['name']]} {slots}" + (" by address" if mechanism["read"] == "address" else "")
    return slots + (" + PE" if mechanism.get("position_encoding", False) else "")


def attention(name: str) -> dict[str, Any]:
    """Returns the options of attention that the name of a model in tables says."""
    if match := re.fullmatch(r"K=(\d+)( \+ PE)?", name):
        return {"name": "memory", "num_slots": int(match[1]), "position_encoding": bool(match[2])}
    for mechanism, words in _WORDS.items():
        if match := re.fullmatch(rf"{words} K=(\d+)( by address)?", name):
            return {"name": mechanism, "num_slots": int(match[1]), "read": "address" if match[2] else "additive"}
    return {"name": name}


def is_memory(attention: Mapping[str, Any]) -> bool:
    """Returns whether a mechanism is memory attention, as in the paper or an extension."""
    return "num_slots" in attention


def scorings(attention: Mapping[str, Any]) -> str:
    """Returns the scoring functions of memory attention, as encoder/decoder; "" for other attention."""
    if not is_memory(attention):
        return ""
    if attention["name"] == "windowed_memory":
        return "softmax_time/softmax"
    return f"{attention['encoder_scoring']}/{attention['decoder_scoring']}"
