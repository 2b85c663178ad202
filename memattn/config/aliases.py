"""Reads configs as version 0.2.0 wrote them.

Then `model` had the keys of every kind, and the mechanism `memory` had the options of all memory mechanisms.
"""

from collections.abc import Mapping
from typing import Any

from memattn.config.schema import Origin, keys_of_other_kinds, value_of
from memattn.config.sections import ModelConfig, NeuralGPUConfig, Seq2SeqConfig

# Values of the keys of `model` that did nothing for its kind.
_UNUSED_VALUES = {**vars(NeuralGPUConfig()), **vars(Seq2SeqConfig()), "attention": {"name": "none"}}
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


def current(tree: Mapping[str, Any], origin: Origin) -> dict[str, Any]:
    """Returns the plain values of a config with the keys of this version.

    Raises:
      ConfigError: an option is no longer there, or does not fit the others.
    """
    model = tree.get("model")
    if not isinstance(model, Mapping):
        return dict(tree)
    model = _without_other_kinds(model)
    attention = model.get("attention")
    if isinstance(attention, Mapping):
        model["attention"] = _attention(attention, "model.attention", origin)
    return {**tree, "model": model}


def _without_other_kinds(model: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of `model` without keys of other kinds at their defaults."""
    others = keys_of_other_kinds(ModelConfig, model.get("kind", Seq2SeqConfig.kind))
    return {name: value for name, value in model.items() if name not in others or value != _UNUSED_VALUES[name]}


def _attention(attention: Mapping[str, Any], key: str, origin: Origin) -> dict[str, Any]:
    """Returns the options of `memory` under the mechanism that has them now, and other mechanisms as they are."""
    over_time = attention.get("encoder_scoring") == "softmax_time"
    is_former = attention.get("name", "memory") == "memory" and (over_time or _EXTENSIONS.keys() & attention.keys())
    if not is_former:
        return dict(attention)
    extensions = {name: attention.get(name, default) for name, default in _EXTENSIONS.items()}
    rest = {name: value for name, value in attention.items() if name not in _EXTENSIONS}
    if extensions["read"] == "content":
        raise origin.error(f"{key}.read", "'content' is no longer there; use address, or additive (memory_variant)")
    if extensions["read"] == "address":
        extensions["read_units"] = _EXTENSIONS["read_units"]  # which have no effect
    changed = {name: value for name, value in extensions.items() if value != _EXTENSIONS[name]}
    names = [*changed, "encoder_scoring"] if over_time else list(changed)
    if not names:
        return rest
    if rest.get("position_encoding"):
        raise origin.error(f"{key}.position_encoding", f"is for memory without {', '.join(names)}")
    rest = {name: value for name, value in rest.items() if name not in _ENCODINGS}
    if value_of(bool, extensions["nested"], f"{key}.nested", origin, {}):
        if others := [name for name in names if name != "nested"]:
            raise origin.error(f"{key}.nested", f"is for memory without {', '.join(others)}")
        return {**rest, "name": "nested_memory"}
    is_windowed = (
        over_time
        and rest.get("decoder_scoring", "softmax") == "softmax"
        and extensions["position_windows"] is True
        and changed.keys() <= {"position_windows", "read", "read_units"}
    )
    if not is_windowed:
        return {**rest, "name": "memory_variant", **changed}
    read = {"read": extensions["read"]}
    if extensions["read"] != "address":
        read["read_units"] = extensions["read_units"]
    kept = {name: value for name, value in rest.items() if name not in ("encoder_scoring", "decoder_scoring")}
    return {**kept, "name": "windowed_memory", **read}
