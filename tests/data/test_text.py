"""Text becomes tokens, by byte-pair encoding or spelling, and text again."""

import random
from collections import Counter

import numpy as np
import pytest
from sacremoses.corpus import NonbreakingPrefixes

from memattn.data import tokenizer as tokenizers
from memattn.data.tokenizer import SubwordTokenizer, TextSettings
from memattn.data.units import SPACE, SpelledWords, Subwords, escape
from memattn.data.vocabulary import SPECIAL_TOKENS, split_words
from memattn.errors import DataError
from memattn.serving.translator import Part, word_alignment

ENGLISH = "a man in a green shirt rides his bike ; two women , three dogs and the boy 's ball . "
CODES, _ = Subwords.learn(Counter((ENGLISH * 3).split()), 60)
SPELLED = SpelledWords("the\ncat\nas\n")

# What the units or their escapes treat specially, and parts of it.
CHARACTERS = "ab@％0</w> \t\v\f\x1c\x1d\x1e\x1f\x85\u00a0\u2028\u2029\u202f\u3000\u0301\u200b\ufeff中👩‍👩‍👧"
PIECES = [*CHARACTERS, *SPECIAL_TOKENS, SPACE, "  ", "the", "cat", "@@", "</w>", "％0020", "％ff05", "％d800"]


@pytest.mark.parametrize("units", [Subwords(CODES), SPELLED], ids=["bpe", "spelled"])
def test_lines_of_random_characters_are_undone_exactly(units):
    draw = random.Random(5)
    pieces = PIECES + [chr(draw.choice([*range(1, 10), *range(14, 0xD800)])) for _ in range(100)]
    for _ in range(2_000):
        line = "".join(draw.choices(pieces, k=draw.randrange(40))).replace("\n", "").replace("\r", "")
        segmented = units.segment(line)
        assert units.undo([segmented]) == [line]
        assert split_words(" ".join(segmented)) == segmented  # no unit holds white space
        assert split_words(line) == [word.decode() for word in line.encode().split()]  # at ASCII white space
        numbers = units.word_numbers(segmented)
        assert len(numbers) == len(segmented)
        assert len(set(numbers)) == len(escape(line).split()), line


@pytest.mark.parametrize(
    ("kind", "units", "line"),
    [
        ("bpe", "a％000dman", "a man"),
        ("bpe", "x ％@@ 0@@ 0@@ 0@@ a y", "x   y"),
        ("bpe", "a％0009b ％2028 ％0085", "a b    "),
        ("bpe", "ein Hun@@", "ein Hun"),
        ("spelled", f"{SPACE} the {SPACE} {SPACE} a b {SPACE}", "the ab"),
        ("spelled", SPACE, ""),
    ],
)
def test_any_units_of_a_model_become_one_line(kind, units, line):
    assert SubwordTokenizer(TextSettings("raw", "en", "de", kind), CODES).decode([units.split(" ")]) == [line]
    assert tokenizers.Tokenizer().decode([["a\u2028b", "c"]]) == ["a b c"]


@pytest.mark.parametrize(
    ("line", "units"),
    [("ab\u00a0x", "ab@@ ％@@ 0@@ 0@@ a@@ 0@@ x"), (" abx", "％@@ 0@@ 0@@ 2@@ 0@@ ab@@ x")],
    ids=["a no-break space is a part of a word", "a blank at the start is kept"],
)
def test_white_space_is_escaped_before_merges_are_applied(line, units):
    assert " ".join(Subwords("#version: 0.2\na b\n").segment(line)) == units


@pytest.mark.parametrize("codes", [CODES.rstrip().rpartition(" ")[0], CODES[:11], "", CODES + "a b c\n"])
def test_damaged_merges_are_refused(tmp_path, codes, capsys):
    (tmp_path / "bpe.codes").write_text(codes, encoding="utf-8")
    with pytest.raises(DataError, match=r"bpe.codes: damaged: each line needs two units"):
        tokenizers.read_units(str(tmp_path), TextSettings("raw", "en", "de"))
    assert capsys.readouterr().err == ""


def test_merges_are_the_most_frequent_pairs():
    codes, units = Subwords.learn(Counter({"abab": 5, "abc": 3}), 2)
    assert codes.splitlines() == ["#version: 0.2", "a b", "ab a"]
    assert units == ["aba@@", "b"]  # each occurs 5 times, then ab@@ and c 3 times
    assert "<s>" not in Subwords.learn(Counter({"<s>": 9, "ab": 2}), 4)[1]
    with pytest.raises(DataError, match="no two letters occur together twice"):
        Subwords.learn(Counter({"a": 5}), 10)


def test_units_are_numbered_by_their_words_and_each_unit_of_a_script_without_blanks_is_a_word():
    assert Subwords.word_numbers([]) == []
    units = ["我们@@", "用@@", "Mo@@", "ses", "3@@", "本", "ไป@@", "บ@@", "้าน"]
    assert Subwords.word_numbers(units, segmented=False) == [0, 1, 2, 2, 3, 4, 5, 6, 6]
    assert Subwords.word_numbers(units) == [0, 0, 0, 0, 1, 1, 2, 2, 2]
    for form, numbers in (("raw", [0, 1]), ("untokenized", [0, 1]), ("tokenized", [0, 0]), ("truecased", [0, 0])):
        assert SubwordTokenizer(TextSettings(form, "en", "zh"), CODES).word_numbers(["我们@@", "用"]) == numbers
    european = ["a@@", "é@@", "나@@", "ж", "％@@", "0@@"]
    assert Subwords.word_numbers(european, segmented=False) == Subwords.word_numbers(european)


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
    assert SPELLED.segment(line) == units.split()
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


@pytest.mark.parametrize("language", ["de", "ko", "zho_Hans"])
def test_the_form_and_the_language_decide_whether_bleu_counts_characters(language):
    for form in ("raw", "untokenized", "tokenized", "truecased"):
        without_blanks = language not in ("de", "ko") and form in ("raw", "untokenized")
        assert SubwordTokenizer(TextSettings(form, "en", language), CODES).by_characters == without_blanks
    assert not tokenizers.Tokenizer().by_characters


@pytest.mark.parametrize(
    ("code", "language", "has_rules"),
    [
        *[(code, code, True) for code in ("de", "zh", "ko")],
        *[(code, "zh", True) for code in ("zh-TW", "ZH", "chinese", "zho_Hans", "cmn")],
        *[("yue_Hant", "yue", True), ("pt-BR", "pt", True), ("ger", "de", True), ("tha", "th", False)],
        *[(code, code, False) for code in ("tgt", "tr")],
    ],
)
def test_codes_of_a_language_are_normalized_and_checked_for_rules_of_moses(code, language, has_rules):
    assert tokenizers.known_code(code) == language
    assert tokenizers.has_moses_rules(language) == has_rules


def test_each_code_of_the_table_becomes_one_that_moses_or_sacrebleu_knows():
    known = set(NonbreakingPrefixes().available_langs.values())
    assert not known & tokenizers.SHORT_CODES.keys()  # these would need no entry
    assert set(tokenizers.SHORT_CODES.values()) <= known | tokenizers.WITHOUT_BLANKS | {"ko"}


KOREAN, THAI = "나는 학교에 갑니다.", "วันนี้ ฉันไปที่บ้าน"


@pytest.mark.parametrize(
    ("line", "language"),
    [
        (KOREAN, "ko"),
        ("今天很好，我们说：“你好！”（真的）", "zh"),
        ("今日は、とても良い「天気」です。", "ja"),
    ],
)
def test_detokenizing_restores_blanks(line, language):
    settings = TextSettings("raw", "en", language)
    raw = SubwordTokenizer(settings, CODES)
    assert raw.detokenize(raw.decode([raw.encode(line, "target")])) == [line]
    assert tokenizers.blank_problem(settings, [line, line, ""]) is None


@pytest.mark.parametrize(("line", "language"), [(KOREAN, "kor"), (KOREAN, "tgt"), (THAI, "th")])
def test_lines_with_unusual_blanks_are_reported(line, language):
    problem = tokenizers.blank_problem(TextSettings("raw", "en", language), [line, line, "A b."])
    assert "2 of 3 targets come back from Moses' tokenizer with other blanks between letters" in problem
    assert f"{language!r} (--target_language)" in problem
    assert tokenizers.blank_problem(TextSettings("raw", "en", language), [line, "A b.", ""]) is None


@pytest.mark.parametrize("line", [THAI, "A man's bike (green): 10\u00a0000 €"])
def test_untokenized_text_is_restored_except_for_repeated_blanks(line):
    untokenized = SubwordTokenizer(TextSettings("untokenized", "en", "th"), CODES)
    for with_blanks in (line, f"  {line.replace(' ', '   ')}\t"):
        assert untokenized.detokenize(untokenized.decode([untokenized.encode(with_blanks, "target")])) == [line]
    assert untokenized.reference(line) == line


def test_targets_too_short_for_bleu_are_reported():
    unsegmented = ["今天天气很好。", "我们去公园。", ""]
    raw, tokenized = (SubwordTokenizer(TextSettings(form, "en", "zh"), CODES) for form in ("raw", "tokenized"))
    assert tokenizers.bleu_problem(raw, unsegmented) is None
    assert "runs of four words, and nearly all targets are shorter" in tokenizers.bleu_problem(tokenized, unsegmented)
    assert tokenizers.bleu_problem(tokenized, ["今天 天气 很 好 。"]) is None
    assert "runs of four characters" in tokenizers.bleu_problem(raw, ["今天", "好 的"])
    words = tokenizers.Tokenizer()
    assert "runs of four words" in tokenizers.bleu_problem(words, [*["1 2 3"] * 20, "1 2 3 4"])
    assert tokenizers.bleu_problem(words, [*["1 2 3"] * 19, "1 2 3 4"]) is None
    assert tokenizers.bleu_problem(words, ["", ""]) is None


def test_raw_text_is_tokenized_and_detokenized():
    raw = SubwordTokenizer(TextSettings("raw", "en", "de"), CODES)
    (words,) = raw.decode([raw.encode("A man's bike (green), isn't it?", "source")])
    assert words == "A man 's bike ( green ) , isn 't it ?"
    line = 'Ein Mann, der "schläft" & träumt; 3.5 Euro.'
    assert raw.detokenize(raw.decode([raw.encode(line, "target")])) == [line]
    assert raw.reference("  as   it is ") == "  as   it is "


def test_truecased_text_is_recased_and_unescaped():
    truecased = SubwordTokenizer(TextSettings("truecased", "en", "de"), CODES)
    line = "das ist &quot; Bobs &quot; Haus @-@ Boot &amp; mehr ."
    assert truecased.decode([truecased.encode(line, "target")]) == [line]
    assert truecased.detokenize([line]) == ['Das ist "Bobs" Haus-Boot & mehr.']
    assert [truecased.reference(line)] == truecased.detokenize([line])
    assert truecased.detokenize([""]) == [""]
    tokenized = SubwordTokenizer(TextSettings("tokenized", "en", "de"), CODES)
    assert tokenized.detokenize(["das ist gut ."]) == ["das ist gut."]


def test_settings_of_a_text_survive_writing_and_reading(tmp_path):
    original = SubwordTokenizer(TextSettings("truecased", "en", "fi"), CODES)
    for name, content in original.files().items():
        (tmp_path / name).write_bytes(content.encode())
    again = tokenizers.read(str(tmp_path))
    assert again.settings == original.settings
    assert again.files() == original.files()
    (tmp_path / "text.json").write_text('{"form": "raw", "source_language": "en", "target_language": "fi"}')
    assert tokenizers.read(str(tmp_path)).settings.units == "bpe"  # as before there were other units
    (tmp_path / "text.json").write_text('{"form": "raw"}')
    with pytest.raises(DataError, match="text.json: source_language is missing"):
        tokenizers.read(str(tmp_path))
    assert tokenizers.read(str(tmp_path / "none")).files() == {}
    assert tokenizers.read(str(tmp_path / "none")).encode("a  b\tc", "source") == ["a", "b", "c"]
