"""Names models in words, and chooses the colour and the dash of each mechanism in pictures.

A model is given by the options of its attention. A Neural GPU, which has none, is given by its kind as `name`.
"""

import bisect
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colors

from memattn.config import Config, Seq2SeqConfig

Dash = str | tuple[int, tuple[int, ...]]  # as in matplotlib: a name, or an offset with lengths on and off


class Style(NamedTuple):
    """How pictures show a mechanism, or a kind of model with active memory.

    Attributes:
      words: name of the mechanism.
      colour: colour of its lines and bars.
      dash: dash of its lines.
    """

    words: str
    colour: str
    dash: Dash


# Memory attention and its extensions are blue to violet; other families share a hue, too. No attention, Bahdanau, dot
# product and memory have colours of Okabe and Ito, which colour-blind readers can tell apart, and different dashes.
STYLES = {
    "none": Style("no attention", "#222222", ":"),
    "bahdanau": Style("Bahdanau", "#D55E00", "--"),
    "luong": Style("Luong", "#00694D", "--"),
    "luong_dot": Style("dot product", "#009E73", "-."),
    "memory": Style("memory", "#0072B2", "-"),
    "windowed_memory": Style("windowed memory", "#332288", (0, (6, 2, 1, 2))),
    "stretch_means": Style("stretch means", "#44AA99", (0, (4, 1, 1, 1, 1, 1))),
    "latents": Style("latents", "#999933", (0, (5, 1))),
    "local_m": Style("local-m", "#6B4423", "-"),
    "local_p": Style("local-p", "#A67B5B", "--"),
    "location": Style("location", "#E69F00", "-."),
    "feed_forward": Style("feed-forward", "#9A9A9A", "-"),
    "linear": Style("linear", "#D9C92E", "-"),
    "monotonic": Style("monotonic", "#F0A0C0", "-"),
    "mocha": Style("MoChA", "#CC5599", "-."),
    "matcha": Style("MAtChA", "#771155", "--"),
    "neural_gpu": Style("Neural GPU", "#CCCCCC", "-"),
    "markovian": Style("Markovian Neural GPU", "#B3A8C9", "--"),
    "extended": Style("Extended Neural GPU", "#8377A1", "-."),
}
_READ_ADDITIVELY = ("windowed_memory", "stretch_means", "latents")  # by default
_READ_BY_ADDRESS = Style("windowed memory", "#9467BD", (0, (3, 2)))
_SLOTS = 32  # number of slots whose lines have the mechanism's colour: fewer are lighter, more are darker
_SLOT_BOUNDS, _SLOT_DASHES = (4, 16, 32, 64), (":", "-.", "--", "-", (0, (8, 2)))  # dashes of `memory` by slots
_DASHES = ("-", "--", "-.", ":")
_MOST_SHADES = 4  # greatest number of lines that shades of one colour can tell apart
# Colours of a picture with more lines of one mechanism. They stand out from white; together with the dashes,
# colour-blind readers can tell them apart.
PALETTE = ("#0072B2", "#D55E00", "#3D9BD9", "#00A87A", "#AA4499", "#222222", "#7A3B10")


def attention(config: Config) -> Mapping[str, Any]:
    """Returns the options of a model's attention; of a Neural GPU, its kind as `name`."""
    return config.model.attention if isinstance(config.model, Seq2SeqConfig) else {"name": config.model.kind}


def words(attention: Mapping[str, Any]) -> str:
    """Returns the name of a model, such as "memory, K = 32"."""
    num_slots = _num_slots(attention)
    slots = f", K = {num_slots}" if num_slots else ""
    encodings = ", position encodings" if attention.get("position_encoding", False) else ""
    is_by_address = attention["name"] in _READ_ADDITIVELY and attention.get("read") == "address"
    return _style(attention).words + slots + encodings + (", read by address" if is_by_address else "")


def line_styles(attentions: list[Mapping[str, Any]]) -> list[tuple[str, Dash]]:
    """Returns a colour and a dash for each line of a picture, from the model of each.

    Of several lines with the same mechanism and K, later ones are lighter and have other dashes. If more than
    _MOST_SHADES lines have the same, colours do not stand for mechanisms: every line of the picture gets its colour and
    dash by its place, see `_style_by_place`.
    """
    styles = [(_colour(attention), _dash(attention)) for attention in attentions]
    if max(map(styles.count, styles), default=0) > _MOST_SHADES:
        return [_style_by_place(place) for place in range(len(styles))]
    lines = []
    for i, (colour, dash) in enumerate(styles):
        earlier = styles[:i].count((colour, dash))
        lighter = mixed(colour, "white", 0.7 * earlier / styles.count((colour, dash)))
        others = [other for other in _DASHES if other != dash]
        lines.append((lighter, others[earlier - 1] if earlier else dash))
    return lines


def _style_by_place(place: int) -> tuple[str, Dash]:
    """Returns a colour of PALETTE and a dash for the line at a place, from 0.

    Both differ from those of the line before; a pair repeats after 28 lines.
    """
    rounds, colour = divmod(place, len(PALETTE))
    return PALETTE[colour], _DASHES[(colour + rounds) % len(_DASHES)]


def mixed(colour: str, added: str, share: float) -> str:
    """Returns a mixture of two colours, of which `added` has the share `share`."""
    red, green, blue = (1 - share) * np.array(colors.to_rgb(colour)) + share * np.array(colors.to_rgb(added))
    return colors.to_hex((red, green, blue))


def _style(attention: Mapping[str, Any]) -> Style:
    name = attention["name"]
    if name == "windowed_memory" and attention.get("read") == "address":
        return _READ_BY_ADDRESS
    return STYLES.get(name) or Style(name.rpartition(":")[2], "#7F7F00", "-")  # a mechanism outside the package


def _num_slots(attention: Mapping[str, Any]) -> int | None:
    return attention.get("num_slots") if attention["name"] in STYLES else None


def _colour(attention: Mapping[str, Any]) -> str:
    colour, doublings = _style(attention).colour, math.log2((_num_slots(attention) or _SLOTS) / _SLOTS)
    if doublings > 0:
        return mixed(colour, "black", min(0.6, 0.35 * doublings))
    return mixed(colour, "white", min(0.6, -0.11 * doublings))


def _dash(attention: Mapping[str, Any]) -> Dash:
    if attention["name"] == "memory":
        return _SLOT_DASHES[bisect.bisect(_SLOT_BOUNDS, attention["num_slots"])]
    return _style(attention).dash
