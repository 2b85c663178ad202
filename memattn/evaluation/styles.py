"""Names models in words, and chooses a colour and a dash for each line of a picture.

A model is given by the options of its attention. A Neural GPU, which has none, is given by its kind as `name`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from memattn.config import Config


class Style(NamedTuple):
    """How pictures show a mechanism, or a kind of model with active memory: its name in words and its colour."""

    words: str
    colour: str


# Memory attention and its extensions are blue to violet; other families have one hue, too. No attention, Bahdanau, dot
# product and memory have colours of Okabe and Ito, which colour-blind readers can tell apart.
STYLES = {
    "none": Style("no attention", "#222222"),
    "bahdanau": Style("Bahdanau", "#D55E00"),
    "luong": Style("Luong", "#00694D"),
    "luong_dot": Style("dot product", "#009E73"),
    "memory": Style("memory", "#0072B2"),
    "windowed_memory": Style("windowed memory", "#332288"),
    "stretch_means": Style("stretch means", "#44AA99"),
    "latents": Style("latents", "#999933"),
    "local_m": Style("local-m", "#6B4423"),
    "local_p": Style("local-p", "#A67B5B"),
    "location": Style("location", "#E69F00"),
    "feed_forward": Style("feed-forward", "#9A9A9A"),
    "linear": Style("linear", "#D9C92E"),
    "monotonic": Style("monotonic", "#F0A0C0"),
    "mocha": Style("MoChA", "#CC5599"),
    "matcha": Style("MAtChA", "#771155"),
    "neural_gpu": Style("Neural GPU", "#CCCCCC"),
    "markovian": Style("Markovian Neural GPU", "#B3A8C9"),
    "extended": Style("Extended Neural GPU", "#8377A1"),
}
_READ_ADDITIVELY = ("windowed_memory", "stretch_means", "latents")  # by default
_DASHES = ("-", "--", "-.", ":")
# Colours of a picture with several lines of one mechanism. They stand out from white; together with the dashes,
# colour-blind readers can tell them apart.
PALETTE = ("#0072B2", "#D55E00", "#3D9BD9", "#00A87A", "#AA4499", "#222222", "#7A3B10")


def attention(config: "Config") -> Mapping[str, Any]:
    """Returns the options of a model's attention; of a Neural GPU, its kind as `name`."""
    return config.model.attention if config.model.kind == "seq2seq" else {"name": config.model.kind}


def words(attention: Mapping[str, Any]) -> str:
    """Returns the name of a model, such as "memory, K = 32"."""
    name = attention["name"]
    if name not in STYLES:  # a mechanism outside the package
        return name.rpartition(":")[2]
    slots = f", K = {attention['num_slots']}" if attention.get("num_slots") else ""
    encodings = ", position encodings" if attention.get("position_encoding", False) else ""
    is_by_address = name in _READ_ADDITIVELY and attention.get("read") == "address"
    return STYLES[name].words + slots + encodings + (", read by address" if is_by_address else "")


def line_styles(attentions: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Returns a colour and a dash for each line of a picture, from the model of each.

    If all models have different mechanisms of the package, each has its mechanism's colour; else see `style_by_index`.
    """
    names = [attention["name"] for attention in attentions]
    styles = [style_by_index(index) for index in range(len(names))]
    if len(set(names)) < len(names) or not set(names) <= STYLES.keys():
        return styles
    return [(STYLES[name].colour, dash) for name, (_, dash) in zip(names, styles, strict=True)]


def style_by_index(index: int) -> tuple[str, str]:
    """Returns a colour of PALETTE and a dash for a line by its index; a pair repeats after 28 lines."""
    rounds, colour = divmod(index, len(PALETTE))
    return PALETTE[colour], _DASHES[(colour + rounds) % len(_DASHES)]
