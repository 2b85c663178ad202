"""Pictures name models in words, and no two mechanisms share a colour."""

import itertools

import pytest

from memattn.attention import MECHANISMS
from memattn.evaluation import styles


def test_every_mechanism_has_words_and_a_colour_of_its_own():
    assert set(MECHANISMS) <= set(styles.STYLES)
    for first, second in itertools.combinations(styles.STYLES.values(), 2):
        assert first.words != second.words
        assert first.colour != second.colour


@pytest.mark.parametrize(
    ("attention", "words"),
    [
        ({"name": "none"}, "no attention"),
        ({"name": "memory", "num_slots": 32, "position_encoding": False}, "memory, K = 32"),
        ({"name": "memory", "num_slots": 4, "position_encoding": True}, "memory, K = 4, position encodings"),
        ({"name": "windowed_memory", "num_slots": 32}, "windowed memory, K = 32"),
        ({"name": "windowed_memory", "num_slots": 2, "read": "address"}, "windowed memory, K = 2, read by address"),
        ({"name": "neural_gpu"}, "Neural GPU"),
        ({"name": "somewhere:MyAttention", "num_slots": None}, "MyAttention"),
    ],
)
def test_models_are_named_in_words(attention, words):
    assert styles.words(attention) == words


def test_windowed_memory_read_by_address_looks_the_same_in_every_picture():
    additive, address = ({"name": "windowed_memory", "num_slots": 32, "read": read} for read in ("additive", "address"))
    lines = styles.line_styles([additive, address])
    assert lines[0][0] != lines[1][0] and lines[0][1] != lines[1][1]
    assert lines[::-1] == styles.line_styles([address, additive])


@pytest.mark.parametrize("name", ["bahdanau", "luong_dot", "none", "linear", "windowed_memory"])
def test_a_few_lines_of_one_mechanism_have_its_dash_and_others(name):
    lines = styles.line_styles([{"name": name}] * 4)
    assert lines[0] == (styles.STYLES[name].colour.lower(), styles.STYLES[name].dash)
    assert len({dash for _, dash in lines}) == len({colour for colour, _ in lines}) == 4


def test_memory_is_blue_with_a_lightness_and_a_dash_for_each_number_of_slots():
    attentions = [{"name": "memory", "num_slots": slots} for slots in (1, 4, 16, 32, 64)]
    lines = styles.line_styles(attentions)
    assert lines == [style for attention in attentions for style in styles.line_styles([attention])]
    assert len({dash for _, dash in lines}) == 5
    brightness = [sum(bytes.fromhex(colour[1:])) for colour, _ in lines]
    assert brightness == sorted(brightness, reverse=True)
    assert lines[3][0].upper() == styles.STYLES["memory"].colour


def luminance(colour):
    """Relative luminance of a colour, as WCAG defines it."""
    shares = [part / 255 for part in bytes.fromhex(colour[1:])]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("number", [6, 11, 14])
def test_many_lines_of_one_mechanism_are_dark_and_differ_from_each_other(number):
    lines = styles.line_styles([{"name": "windowed_memory", "num_slots": 16}] * (number - 1) + [{"name": "none"}])
    assert len(set(lines)) == number
    for colour, _ in lines:
        assert 1.05 / (luminance(colour) + 0.05) > 2.9  # contrast with white
    for (colour, dash), (other_colour, other_dash) in itertools.combinations(lines, 2):
        distance = sum(abs(a - b) for a, b in zip(*map(bytes.fromhex, (colour[1:], other_colour[1:])), strict=True))
        assert distance > 100 or (distance == 0 and dash != other_dash)


def test_few_lines_of_one_mechanism_are_shades_of_its_colour():
    lines = styles.line_styles([{"name": "memory", "num_slots": 32}] * 4)
    assert lines[0] == (styles.STYLES["memory"].colour.lower(), "-")
    assert [luminance(colour) for colour, _ in lines] == sorted(luminance(colour) for colour, _ in lines)
    assert len({dash for _, dash in lines}) == 4
