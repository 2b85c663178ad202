"""Pictures name models in words, and lines differ in colour and dash."""

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
        ({"name": "memory", "num_slots": 4, "position_encoding": True}, "memory, K = 4, position encodings"),
        ({"name": "windowed_memory", "num_slots": 2, "read": "address"}, "windowed memory, K = 2, read by address"),
        ({"name": "neural_gpu"}, "Neural GPU"),
        ({"name": "somewhere:MyAttention", "num_slots": None}, "MyAttention"),
    ],
)
def test_models_are_named_in_words(attention, words):
    assert styles.words(attention) == words


def test_different_mechanisms_have_their_colours_whatever_else_is_drawn():
    names = ["bahdanau", "memory", "luong"]
    lines = styles.line_styles([{"name": name} for name in names])
    assert [colour for colour, _ in lines] == [styles.STYLES[name].colour for name in names]
    assert len({dash for _, dash in lines}) == 3
    outside = styles.line_styles([{"name": name} for name in ("here:MyAttention", "there:MyAttention", "memory")])
    assert len({colour for colour, _ in outside}) == 3


@pytest.mark.parametrize("number", [2, 14])
def test_many_lines_of_one_mechanism_differ_from_each_other(number):
    lines = styles.line_styles([{"name": "windowed_memory", "num_slots": 16}] * (number - 1) + [{"name": "none"}])
    assert len(set(lines)) == number
    for (colour, dash), (other_colour, other_dash) in itertools.combinations(lines, 2):
        distance = sum(abs(a - b) for a, b in zip(*map(bytes.fromhex, (colour[1:], other_colour[1:])), strict=True))
        assert distance > 100 or (distance == 0 and dash != other_dash)
