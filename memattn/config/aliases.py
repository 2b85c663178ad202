"""Reads `model.attention` as version 0.2.0 wrote it, when `memory` had the options of all memory mechanisms."""

from collections.abc import Mapping
from typing import Any

from memattn.config.schema import Source, value_of

# Options that `memory` had beside those of the paper, with their defaults.
_EXTENSIONS = {
    "encoder_normalize": "none",
    "vote_scale": 1.0,
    "read": "address",
    "read_units": 64,
    "nested": False,
    "position_windows": False,
}
_ENCODINGS = ("position_encoding", "renormalize")  # options of memory as in the paper alone


def current(section: Mapping[str, Any], key: str, source: Source) -> dict[str, Any]:
    """Returns the section, of that dotted key, under the mechanism that has its options now. Raises ConfigError."""
    over_time = section.get("encoder_scoring") == "softmax_time"
    if section.get("name", "memory") != "memory" or not (over_time or _EXTENSIONS.keys() & section.keys()):
        return dict(section)
    given = {name: section.get(name, default) for name, default in _EXTENSIONS.items()}
    rest = {name: value for name, value in section.items() if name not in _EXTENSIONS}
    if given["read"] == "content":
        raise source.error(f"{key}.read", "'content' is no longer there; use address, or additive (memory_variant)")
    if given["read"] == "address":
        given["read_units"] = _EXTENSIONS["read_units"]  # it has no effect
    changed = {name: value for name, value in given.items() if value != _EXTENSIONS[name]}
    if not changed and not over_time:
        return rest
    extensions = [*changed, *["encoder_scoring"] * over_time]
    if rest.get("position_encoding"):
        raise source.error(f"{key}.position_encoding", f"is for memory without {', '.join(extensions)}")
    rest = {name: value for name, value in rest.items() if name not in _ENCODINGS}
    if value_of(bool, given["nested"], f"{key}.nested", source, {}):
        if len(extensions) > 1:
            others = ", ".join(name for name in extensions if name != "nested")
            raise source.error(f"{key}.nested", f"is for memory without {others}")
        return {**rest, "name": "nested_memory"}
    over_slots = rest.get("decoder_scoring", "softmax") == "softmax"
    is_windowed = over_time and over_slots and given["position_windows"] is True
    if is_windowed and changed.keys() <= {"position_windows", "read", "read_units"}:
        reads = {name: given[name] for name in ("read", *["read_units"] * (given["read"] != "address"))}
        scorings = ("encoder_scoring", "decoder_scoring")
        kept = {name: value for name, value in rest.items() if name not in scorings}
        return {**kept, "name": "windowed_memory", **reads}
    return {**rest, "name": "memory_variant", **changed}
