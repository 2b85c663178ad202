"""Pictures of studies: each mechanism has a colour and a dash, and lines of one mechanism differ by slots or shade."""

import pytest
from studies.styles import line_styles

from memattn.evaluation.styles import STYLES


def test_windowed_memory_read_by_address_looks_the_same_in_every_picture():
    additive, address = ({"name": "windowed_memory", "num_slots": 32, "read": read} for read in ("additive", "address"))
    lines = line_styles([additive, address])
    assert lines[0][0] != lines[1][0] and lines[0][1] != lines[1][1]
    assert lines[::-1] == line_styles([address, additive])


@pytest.mark.parametrize("name", ["bahdanau", "luong_dot", "none", "linear", "windowed_memory"])
def test_a_few_lines_of_one_mechanism_have_its_dash_and_others(name):
    lines = line_styles([{"name": name}] * 4)
    assert lines[0] == (STYLES[name].colour.lower(), line_styles([{"name": name}])[0][1])
    assert len({dash for _, dash in lines}) == len({colour for colour, _ in lines}) == 4


def test_memory_is_blue_with_a_lightness_and_a_dash_for_each_number_of_slots():
    attentions = [{"name": "memory", "num_slots": slots} for slots in (1, 4, 16, 32, 64)]
    lines = line_styles(attentions)
    assert lines == [style for attention in attentions for style in line_styles([attention])]
    assert len({dash for _, dash in lines}) == 5
    brightness = [sum(bytes.fromhex(colour[1:])) for colour, _ in lines]
    assert brightness == sorted(brightness, reverse=True)
    assert lines[3][0].upper() == STYLES["memory"].colour
