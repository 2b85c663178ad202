"""Frequent words are units, others are spelled; any line is restored, and prepared text is read by training."""

import dataclasses
import json
import random
from collections import Counter

import numpy as np
import pytest
from helpers.files import lines_of
from helpers.texts import SETTINGS, sentences

from memattn.data import corpus
from memattn.data import tokenizer as tokenizers
from memattn.data.preparation import parallel
from memattn.data.units import SPACE, SpelledWords, escape
from memattn.data.vocabulary import SPECIAL_TOKENS, split_words
from memattn.errors import ConfigError
from memattn.serving.lines import Part, word_alignment

WORDS = "the\ncat\nas\n"
# line -> units, worked out by hand
SPELLED = {
    "the cat": "the cat",
    "the dog": "the d o g",
    "dog as": "d o g as",
    "a big dog .": f"a {SPACE} b i g {SPACE} d o g {SPACE} .",
    "cat . a cat": f"cat . {SPACE} a cat",
    "": "",
}


@pytest.mark.parametrize("line", SPELLED)
def test_words_outside_the_dictionary_are_spelled_with_a_space_between_characters(line):
    units = SPELLED[line].split()
    assert SpelledWords(WORDS).segment(line) == units
    assert SpelledWords.undo([units]) == [line]


def test_random_text_is_restored_exactly():
    draw = random.Random(5)
    pieces = ["the", "cat", "as", "a", " ", "  ", "\t", "\u00a0", "\u2028", "\x85", "\x1c", "％", "％0020", "@@", SPACE]
    pieces += [*SPECIAL_TOKENS, "e\u0301", "👩‍👩‍👧", "\U0010ffff", "\ufeff", "<space> the"]
    pieces += [chr(draw.choice([draw.randrange(1, 0xD800), draw.randrange(0xE000, 0x110000)])) for _ in range(300)]
    spelled = SpelledWords(WORDS)
    for _ in range(2000):
        line = "".join(draw.choices(pieces, k=draw.randrange(30))).replace("\n", "").replace("\r", "")
        units = spelled.segment(line)
        assert SpelledWords.undo([units]) == [line]
        assert split_words(" ".join(units)) == units  # no unit holds white space
        numbers = SpelledWords.word_numbers(units)
        assert len(numbers) == len(units)
        assert len(set(numbers)) == len(escape(line).split()), line


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


def test_settings_without_units_have_bpe(tmp_path):
    settings = {"form": "raw", "source_language": "en", "target_language": "de"}
    (tmp_path / "bpe.codes").write_text("#version: 0.2\na b\n")
    (tmp_path / "text.json").write_text(json.dumps(settings))
    assert tokenizers.read(str(tmp_path)).settings.units == "bpe"


def test_the_words_of_a_piece_are_not_joined_to_those_before_it():
    first, second = np.array([[1.0, 0], [0, 1]]), np.array([[1.0, 0]])
    parts = [Part(["cat", "as"], ["k", "."], first), Part([], [], first[:0, :0]), Part(["a", "b"], ["x"], second)]
    assert word_alignment(parts, SpelledWords.word_numbers) == "0-0 2-1"
    parts[0] = Part(["cat", "."], ["k", "."], first)  # the source's word ".ab" was cut
    assert word_alignment(parts, SpelledWords.word_numbers) == "0-0 1-1"


@pytest.mark.slow
def test_spelled_text_is_prepared_and_its_vocabulary_shared(tmp_path):
    for side in ("source", "target"):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in sentences(60, side)), encoding="utf-8")
    paths = (str(tmp_path / "source"), str(tmp_path / "target"))
    splits = {"train": paths, "valid": paths}
    settings = dataclasses.replace(SETTINGS, text=dataclasses.replace(SETTINGS.text, units="spelled"), bpe_units=50)
    folder = str(tmp_path / "out")
    manifest = parallel.prepare(splits, settings, folder, workers=1)
    assert manifest["settings"]["text"]["units"] == "spelled"
    vocabulary = corpus.read_vocabulary(f"{folder}/vocab.txt")
    assert len(vocabulary) == 54
    tokenizer = tokenizers.read(folder)
    for side, path in zip(("source", "target"), paths, strict=True):
        tokens = [split_words(line) for line in lines_of(f"{folder}/valid.{side}")]
        assert tokenizer.decode(tokens) == [
            " ".join(tokenizers.word_tokenizer("raw", "en")(line).split()) for line in lines_of(path)
        ]
        assert not any("@@" in token for line in tokens for token in line)
    assert lines_of(f"{folder}/valid.reference") == lines_of(paths[1])
    assert parallel.prepare(splits, settings, folder, workers=1) == manifest
    with pytest.raises(ConfigError, match="holds another corpus"):
        parallel.prepare(splits, SETTINGS, folder, workers=1)
    shared = dataclasses.replace(settings, bpe_units=None, bpe_sample=None, seed=None)
    parallel.prepare(splits, shared, str(tmp_path / "shared"), workers=1, shared=folder)
    for name in ("words.txt", "vocab.txt", "valid.target"):
        assert lines_of(f"{folder}/{name}") == lines_of(tmp_path / "shared" / name)
