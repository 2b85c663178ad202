"""Chooses the colour and the dash of each mechanism in the pictures of studies: alike in all of them, and by slots."""

import bisect
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import colors

from memattn.evaluation.styles import STYLES, style_by_index
from studies.mechanisms import MEMORY_VARIANT, NESTED_MEMORY

Dash = str | tuple[int, tuple[int, ...]]  # as in matplotlib: a name, or an offset with lengths on and off

_COLOURS = {
    **{name: style.colour for name, style in STYLES.items()},
    NESTED_MEMORY: "#56B4E9",
    MEMORY_VARIANT: "#8FA6D9",
}
_MECHANISM_DASHES: dict[str, Dash] = {  # all others have "-"
    "none": ":",
    "bahdanau": "--",
    "luong": "--",
    "luong_dot": "-.",
    "windowed_memory": (0, (6, 2, 1, 2)),
    "stretch_means": (0, (4, 1, 1, 1, 1, 1)),
    "latents": (0, (5, 1)),
    "local_p": "--",
    "location": "-.",
    "mocha": "-.",
    "matcha": "--",
    "markovian": "--",
    "extended": "-.",
    NESTED_MEMORY: "--",
    MEMORY_VARIANT: "-.",
}
_READ_BY_ADDRESS: tuple[str, Dash] = ("#9467BD", (0, (3, 2)))  # of windowed memory
_SLOTS = 32  # number of slots whose lines have the mechanism's colour: fewer are lighter, more are darker
_SLOT_BOUNDS, _SLOT_DASHES = (4, 16, 32, 64), (":", "-.", "--", "-", (0, (8, 2)))  # dashes of `memory` by slots
_DASHES = ("-", "--", "-.", ":")
_MOST_SHADES = 4  # greatest number of lines that shades of one colour can tell apart


def line_styles(attentions: list[Mapping[str, Any]]) -> list[tuple[str, Dash]]:
    """Returns a colour and a dash for each line of a picture, from the model of each.

    Lines of one mechanism and K differ in lightness and dash. With more than _MOST_SHADES of them, the lines of the
    picture have colours by their indices.
    """
    styles = [(_colour(attention), _dash(attention)) for attention in attentions]
    if max(map(styles.count, styles), default=0) > _MOST_SHADES:
        return list(map(style_by_index, range(len(styles))))
    lines = []
    for i, (colour, dash) in enumerate(styles):
        earlier = styles[:i].count((colour, dash))
        lighter = mixed(colour, "white", 0.7 * earlier / styles.count((colour, dash)))
        further = [name for name in _DASHES if name != dash]
        lines.append((lighter, further[earlier - 1] if earlier else dash))
    return lines


def mixed(colour: str, added: str, fraction: float) -> str:
    """Returns a mixture of two colours with this fraction of `added`."""
    red, green, blue = (1 - fraction) * np.array(colors.to_rgb(colour)) + fraction * np.array(colors.to_rgb(added))
    return colors.to_hex((red, green, blue))


def _is_by_address(attention: Mapping[str, Any]) -> bool:
    return attention["name"] == "windowed_memory" and attention.get("read") == "address"


def _colour(attention: Mapping[str, Any]) -> str:
    colour = _READ_BY_ADDRESS[0] if _is_by_address(attention) else _COLOURS.get(attention["name"], "#7F7F00")
    doublings = math.log2((attention.get("num_slots") or _SLOTS) / _SLOTS)
    if doublings > 0:
        return mixed(colour, "black", min(0.6, 0.35 * doublings))
    return mixed(colour, "white", min(0.6, -0.11 * doublings))


def _dash(attention: Mapping[str, Any]) -> Dash:
    if attention["name"] == "memory":
        return _SLOT_DASHES[bisect.bisect(_SLOT_BOUNDS, attention["num_slots"])]
    return _READ_BY_ADDRESS[1] if _is_by_address(attention) else _MECHANISM_DASHES.get(attention["name"], "-")
