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
        ({"name": "neural_gpu"}, "Neural GPU"),
        ({"name": "somewhere:MyAttention", "num_slots": None}, "MyAttention"),
    ],
)
def test_models_are_named_in_words(attention, words):
    assert styles.words(attention) == words
    assert len(styles.line_styles([attention])) == 1


def test_memory_is_blue_with_a_lightness_and_a_dash_for_each_number_of_slots():
    attentions = [{"name": "memory", "num_slots": slots} for slots in (1, 4, 16, 32, 64)]
    lines = styles.line_styles(attentions)
    assert lines == [style for attention in attentions for style in styles.line_styles([attention])]
    assert len({dash for _, dash in lines}) == 5
    brightness = [sum(bytes.fromhex(colour[1:])) for colour, _ in lines]
    assert brightness == sorted(brightness, reverse=True)
    assert lines[3][0].upper() == styles.STYLES["memory"].colour
