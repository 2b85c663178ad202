"""Byte-pair encoding that is undone exactly, and the text of a corpus to tokens and back."""

import gzip
from collections import Counter

import pytest
from conftest import SHARED

from memattn.data import bpe
from memattn.data import tokenizer as text
from memattn.data.bpe import Subwords
from memattn.data.tokenizer import Text, TextSettings
from memattn.data.vocabulary import SPECIAL_TOKENS
from memattn.errors import DataError

ENGLISH = "a man in a green shirt rides his bike ; two women , three dogs and the boy 's ball . "
CODES = bpe.learn(Counter((ENGLISH * 3).split()), 60)

ODD_LINES = {
    "empty": "",
    "spaces": "  ",
    "leading, trailing and double spaces": " a  man   rides ",
    "tabs": "a\tman\t",
    "emoji": "a man 👩‍👩‍👧‍👦 rides 🚲",
    "combining marks": "cafe\u0301 n\u0303 \u0301",
    "no-break spaces": "a\u00a0man\u202frides \u00a0",
    "other white space": "a\u2028man\u2029\x85\x0b\x0c\x1c\x1d\x1e\x1f\u3000rides",
    "carriage return": "a\rman",
    "separator at the end": "man@@",
    "separators": "@@ @@ @ @@@ @@@@ a@@ b@ @@c d@@e",
    "escape sign": "100％ ％ ％0020 ％ff05 ％d800",
    "end of word mark": "</w> a</w> </w></w> <w>",
    "special tokens": " ".join(SPECIAL_TOKENS),
    "no characters at all": "\u200b\ufeff",
    "a word of 10,000 characters": "rides" * 2000,
    "10,000 characters": "a man " * 1666 + "boys",
    "10,000 odd characters": "@@\u00a0％ " * 2000,
}


@pytest.mark.parametrize("name", ODD_LINES)
def test_segmented_lines_are_undone_exactly(name):
    line = ODD_LINES[name]
    units = Subwords(CODES).segment(line)
    assert Subwords.undo(units) == line
    assert " ".join(units).split() == units  # nothing in them is taken for white space


@pytest.mark.skipif(not (SHARED / "data").is_dir(), reason="Multi30k is not beside this checkout")
def test_all_of_multi30k_is_undone_exactly():
    subwords = Subwords(CODES)
    seen = 0
    for path in sorted((SHARED / "data" / "multi30k").glob("*.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                line = line.removesuffix("\n")
                assert subwords.undo(subwords.segment(line)) == line
                seen += 1
    assert seen == 2 * (29_000 + 1_014 + 1_000)


def test_merges_are_the_most_frequent_pairs():
    assert bpe.learn(Counter({"abab": 5, "abc": 3}), 2).splitlines() == ["#version: 0.2", "a b", "ab a"]
    assert bpe.learn(Counter({"a": 5}), 10) == "#version: 0.2\n"  # no pair at all
    units = bpe.most_frequent_units(Counter({"abab": 5, "abc": 3, "</s>": 9}), "#version: 0.2\na b\n", 10)
    assert units[:5] == ["/@@", "<@@", ">", "s@@", "ab@@"]  # nine each of what </s> is made of, then eight
    assert "</s>" not in units
    assert set(units) == {"ab@@", "a@@", "b", "c", "<@@", "/@@", "s@@", ">"}
    assert len(bpe.most_frequent_units(Counter({"abab": 5, "abc": 3}), "#version: 0.2\na b\n", 2)) == 2


def test_words_are_numbered():
    assert bpe.word_numbers(["a@@", "b", "c", "d@@", "e@@", "f"]) == [0, 0, 1, 2, 2, 2]
    assert bpe.word_numbers([]) == []


def test_raw_text_is_tokenized_and_detokenized():
    raw = Text(TextSettings("raw", "en", "de"), CODES)
    words = raw.decode(raw.encode("A man's bike (green), isn't it?", "source"))
    assert words == "A man 's bike ( green ) , isn 't it ?"
    line = 'Ein Mann, der "schläft" & träumt; 3.5 Euro.'
    assert raw.detokenize(raw.decode(raw.encode(line, "target"))) == line
    assert raw.reference("  as   it is ") == "  as   it is "


def test_truecased_text_is_recased_and_unescaped():
    truecased = Text(TextSettings("truecased", "en", "de"), CODES)
    line = "das ist &quot; Bobs &quot; Haus @-@ Boot &amp; mehr ."
    assert truecased.decode(truecased.encode(line, "target")) == line
    assert truecased.detokenize(line) == 'Das ist "Bobs" Haus-Boot & mehr.'
    assert truecased.reference(line) == truecased.detokenize(line)
    assert truecased.detokenize("") == ""
    tokenized = Text(TextSettings("tokenized", "en", "de"), CODES)
    assert tokenized.detokenize("das ist gut .") == "das ist gut."


def test_what_a_folder_says_of_its_text_survives_the_files(tmp_path):
    original = Text(TextSettings("truecased", "en", "fi"), CODES)
    for name, content in original.files().items():
        (tmp_path / name).write_bytes(content.encode())
    again = text.read(str(tmp_path))
    assert again.settings == original.settings
    assert again.files() == original.files()
    assert text.read(str(tmp_path / "none")).files() == {}
    assert text.read(str(tmp_path / "none")).encode("a  b\tc", "source") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (text.SETTINGS, "{", "not the settings of a text"),
        (text.SETTINGS, "[]", "not the settings of a text"),
        (
            text.SETTINGS,
            '{"form": "cooked", "source_language": "en", "target_language": "de"}',
            "'cooked' is none of raw",
        ),
        (text.SETTINGS, '{"form": "raw"}', "not the settings of a text"),
        (text.CODES, "a b\n", "not BPE codes"),
        (text.CODES, CODES[:-1], "or cut short"),
        (text.CODES, "#version: 0.2\na b\nc\n", "bpe.codes:3: a merge is two units"),
        (text.CODES, b"\xff", "unreadable"),
        (text.CODES, None, "No such file"),
    ],
)
def test_broken_text_files_are_named(tmp_path, name, content, problem):
    for good, lines in Text(TextSettings("raw", "en", "de"), CODES).files().items():
        (tmp_path / good).write_text(lines, encoding="utf-8")
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=problem) as refused:
        text.read(str(tmp_path))
    assert str(tmp_path / name) in str(refused.value)
