"""Translates configs of former versions into the keys of this version.

In version 0.2.0, `model` had the keys of every kind, and the mechanism `memory` had the options of all memory
mechanisms. Up to version 0.3.0, `training.stop_at_bleu` ended training at a BLEU, as `stop_at` does now, and
`decoding.num_slots` cut a memory.
"""

from collections.abc import Mapping
from typing import Any

from memattn.config.mechanism_options import DEFAULT
from memattn.config.schema import Origin, keys_of_other_kinds
from memattn.config.sections import ModelConfig, Seq2SeqConfig

# Values that version 0.2.0 wrote for keys of `model` that have no effect on its kind.
_UNUSED_VALUES = {
    "width": 4,
    "cell": "cgru",
    "encoder": "lstm",
    "decoder": "lstm",
    "encoder_units": None,
    "embedding_size": 256,
    "init_scale": 0.04,
    "input_feeding": True,
    "mix": True,
    "bridge": "auto",
    "tie_embeddings": "none",
    "attention": {"name": "none"},
}
# Former options of `memory` that are not in the paper, with their defaults.
_EXTENSIONS = {
    "encoder_normalize": "none",
    "vote_scale": 1.0,
    "read": "address",
    "read_units": 64,
    "nested": False,
    "position_windows": False,
}
_ENCODINGS = ("position_encoding", "renormalize")  # options that only `memory` still has


def current(tree: Mapping[str, Any], origin: Origin) -> dict[str, Any]:
    """Returns the plain values of a config with the keys of this version.

    Raises:
      ConfigError: an option was removed, or does not fit the others.
    """
    training, model, decoding = tree.get("training"), tree.get("model"), tree.get("decoding")
    if isinstance(decoding, Mapping) and decoding.get("num_slots", "absent") is None:  # up to version 0.3.0
        tree = {**tree, "decoding": {name: value for name, value in decoding.items() if name != "num_slots"}}
    if isinstance(training, Mapping) and "stop_at_bleu" in training:
        tree = {**tree, "training": _with_stop_at(training, origin)}
    if not isinstance(model, Mapping):
        return dict(tree)
    model = _without_other_kinds(model)
    attention = model.get("attention")
    if isinstance(attention, Mapping):
        model["attention"] = _attention(attention, "model.attention", origin)
    return {**tree, "model": model}


def _with_stop_at(training: Mapping[str, Any], origin: Origin) -> dict[str, Any]:
    """Returns `training` with `stop_at` in place of `stop_at_bleu`."""
    rest = dict(training)
    bleu = rest.pop("stop_at_bleu")
    if bleu is None:
        return rest
    if rest.get("stop_at") is not None or rest.get("metric", "bleu") != "bleu":
        raise origin.error("training.stop_at_bleu", "is no longer there; use stop_at, a value of training.metric")
    return {**rest, "stop_at": bleu}


def _without_other_kinds(model: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `model` without the keys that only other kinds have, where these are at their defaults."""
    foreign = keys_of_other_kinds(ModelConfig, model.get("kind", Seq2SeqConfig.kind)) & _UNUSED_VALUES.keys()
    return {name: value for name, value in model.items() if name not in foreign or value != _UNUSED_VALUES[name]}


def _attention(attention: Mapping[str, Any], key: str, origin: Origin) -> dict[str, Any]:
    """Returns the options of a former `memory` with the name of the mechanism that has them now.

    Other mechanisms are returned unchanged.
    """
    over_time = attention.get("encoder_scoring") == "softmax_time"
    is_memory = attention.get("name", DEFAULT) == "memory"
    if not (is_memory and (over_time or _EXTENSIONS.keys() & attention.keys())):
        return dict(attention)
    extensions = {name: attention.get(name, default) for name, default in _EXTENSIONS.items()}
    rest = {name: value for name, value in attention.items() if name not in _EXTENSIONS}
    if extensions["read"] == "address":
        extensions["read_units"] = _EXTENSIONS["read_units"]  # only the other reads use it
    changed = {name: value for name, value in extensions.items() if value != _EXTENSIONS[name]}
    extended = [*changed, "encoder_scoring"] if over_time else list(changed)
    if not extended:
        return rest
    if rest.get("position_encoding"):
        raise origin.error(f"{key}.position_encoding", f"is for memory without {', '.join(extended)}")
    rest = {name: value for name, value in rest.items() if name not in _ENCODINGS}
    if not _is_windowed(rest, changed):
        raise origin.error(f"{key}.{extended[0]}", "is no longer an option of memory (docs/help/compatibility.md)")
    read = {"read": extensions["read"]}
    if extensions["read"] != "address":
        read["read_units"] = extensions["read_units"]
    rest = {name: value for name, value in rest.items() if name not in ("encoder_scoring", "decoder_scoring")}
    return {**rest, "name": "windowed_memory", **read}


def _is_windowed(options: Mapping[str, Any], extensions: Mapping[str, Any]) -> bool:
    """Returns whether a former `memory` with these options, and extensions not at their defaults, is windowed."""
    scorings = options.get("encoder_scoring"), options.get("decoder_scoring", "softmax")
    return (
        scorings == ("softmax_time", "softmax")
        and extensions.get("position_windows") is True
        and extensions.keys() <= {"position_windows", "read", "read_units"}
    )
