"""Frequent words are units, and other words are spelled."""

from collections import Counter

import numpy as np
import pytest

from memattn.data.units import SPACE, SpelledWords
from memattn.serving.lines import Part, word_alignment


@pytest.mark.parametrize(
    ("line", "units"),  # worked out by hand
    [
        ("the dog", "the d o g"),
        ("dog as", "d o g as"),
        ("a big dog .", f"a {SPACE} b i g {SPACE} d o g {SPACE} ."),
        ("cat . a cat", f"cat . {SPACE} a cat"),
        ("", ""),
    ],
)
def test_words_outside_the_dictionary_are_spelled_with_a_space_between_characters(line, units):
    assert SpelledWords("the\ncat\nas\n").segment(line) == units.split()
    assert SpelledWords.undo([units.split()]) == [line]


@pytest.mark.parametrize(
    ("units", "line"),
    [
        (f"{SPACE} the {SPACE} {SPACE} a b {SPACE}", "the ab"),
        ("c <unk> t the", "c <unk> t the"),
        (SPACE, ""),
    ],
)
def test_any_units_of_a_model_become_one_line(units, line):
    assert SpelledWords.undo([units.split()]) == [line]


@pytest.mark.parametrize(
    ("units", "numbers"),
    [
        ([], []),
        (["cat", ".", SPACE, "a", "b", "the", "c"], [0, 1, 2, 2, 2, 3, 4]),
        (["cat", SPACE], [0, 0]),
        (["cat", "a", SPACE, SPACE], [0, 1, 1, 1]),
        ([SPACE, SPACE, "a"], [0, 0, 0]),
    ],
)
def test_a_space_belongs_to_the_word_after_it_or_to_the_last(units, numbers):
    assert SpelledWords.word_numbers(units) == numbers


def test_the_vocabulary_has_all_characters_and_then_the_most_frequent_words():
    words = Counter({"the": 9, "cat": 5, "cot": 5, "a": 20, "<unk>": 8, SPACE: 8, "at": 1})
    characters = {*"thecatcota", *"<unk>", *SPACE}
    dictionary, units = SpelledWords.learn(words, len(characters) + 3)
    assert dictionary == "the\ncat\n"
    assert (units[0], units[1], set(units[1:-2]), units[-2:]) == (SPACE, "a", characters, ["the", "cat"])
    assert SpelledWords.learn(words, 3) == ("", [SPACE, "a", "t"])


def test_the_words_of_a_piece_are_not_joined_to_those_before_it():
    first, second = np.array([[1.0, 0], [0, 1]]), np.array([[1.0, 0]])
    parts = [Part(["cat", "as"], ["k", "."], first), Part([], [], first[:0, :0]), Part(["a", "b"], ["x"], second)]
    assert word_alignment(parts, SpelledWords.word_numbers) == "0-0 2-1"
    parts[0] = Part(["cat", "."], ["k", "."], first)  # the source's word ".ab" was cut
    assert word_alignment(parts, SpelledWords.word_numbers) == "0-0 1-1"
