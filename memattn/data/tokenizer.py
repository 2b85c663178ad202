"""Splits text into a model's tokens (Moses tokenization, then BPE or spelling), and joins tokens into text."""

import contextlib
import dataclasses
import functools
import io
import json
import os
import re
from collections.abc import Callable, Iterable
from typing import Literal

import regex
from sacremoses import MosesDetokenizer, MosesDetruecaser, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from memattn import files
from memattn.data.units import SpelledWords, Subwords
from memattn.data.vocabulary import split_words
from memattn.errors import DataError

SETTINGS = "text.json"
Form = Literal["raw", "tokenized", "truecased", "untokenized"]
Units = Literal["bpe", "spelled"]
Side = Literal["source", "target"]
CHINESE = frozenset({"zh", "yue", "wuu", "lzh"})
HAN = CHINESE | {"ja"}  # languages written in Han characters
WITHOUT_BLANKS = HAN | {"th", "lo", "km", "my", "shn", "bo", "dz"}  # languages without blanks between words
# Codes of three letters (ISO 639-2 and 639-3), where Moses and sacreBLEU know a language by two.
SHORT_CODES = {
    "bur": "my", "chi": "zh", "cze": "cs", "dut": "nl", "fre": "fr", "ger": "de", "gre": "el", "ice": "is",
    "lav": "lv", "rum": "ro", "slo": "sk", "tib": "bo", "zho": "zh",
    "asm": "as", "ben": "bn", "bod": "bo", "cat": "ca", "ces": "cs", "cmn": "zh", "deu": "de", "ell": "el",
    "eng": "en", "est": "et", "fin": "fi", "fra": "fr", "gle": "ga", "guj": "gu", "hin": "hi", "hun": "hu",
    "isl": "is", "ita": "it", "jpn": "ja", "kan": "kn", "khm": "km", "kor": "ko", "lao": "lo", "lit": "lt",
    "lvs": "lv", "mal": "ml", "mar": "mr", "mya": "my", "nld": "nl", "ori": "or", "pan": "pa", "pol": "pl",
    "por": "pt", "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "swe": "sv", "tam": "ta",
    "tel": "te", "tha": "th",
}  # fmt: skip
_UNSEGMENTED_FORMS = ("raw", "untokenized")  # their lines are not divided into words
_WIDE = r"[[\p{P}\p{S}]--[\x00-\x7f]]"  # punctuation and symbols that are not ASCII
_BLANKS_AT_WIDE = regex.compile(rf"(?V1) (?={_WIDE})|(?<={_WIDE}) ")
_PUNCTUATION = regex.compile(r" ?[\p{P}\p{S}] ?")
_LINE_BREAKS = str.maketrans(dict.fromkeys("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029", " "))
_LEAST_LONG_LINES = 0.05  # fraction of lines that need four words or characters for BLEU


class Tokenizer:
    """Turns lines of a corpus into tokens, and tokens into lines. In this base class, a token is a word of a line."""

    target_language = ""  # a code; empty if it is unknown
    by_characters = False  # whether BLEU on tokens compares characters, not words

    def files(self) -> dict[str, str]:
        """Returns names and contents of the files from which `read` restores this tokenizer."""
        return {}

    def encode(self, line: str, side: Side) -> list[str]:
        """Splits a line into tokens."""
        return split_words(line)

    def decode(self, sentences: Iterable[list[str]]) -> list[str]:
        """Joins the tokens of each sentence into words separated by spaces: one line, whatever a model wrote."""
        return list(map(without_line_breaks, map(" ".join, sentences)))

    def word_numbers(self, tokens: list[str]) -> list[int]:
        """Returns, for each token, the number of the word that it belongs to."""
        return list(range(len(tokens)))

    def detokenize(self, lines: Iterable[str]) -> list[str]:
        """Turns lines of the target, words separated by spaces, into lines as people write them."""
        return list(lines)

    def reference(self, line: str) -> str:
        """Returns a line of the target as people write it: the line itself, unless it is tokenized."""
        return " ".join(split_words(line))


@dataclasses.dataclass(frozen=True)
class TextSettings:
    """The form of a corpus' lines, and their languages."""

    # raw text is tokenized by Moses' rules; tokenized lines already are; truecased lines are also truecased. In
    # untokenized text, words are separated by blanks, and only repeated blanks change
    form: Form
    source_language: str  # a code, such as de
    target_language: str
    units: Units = "bpe"  # bpe: byte-pair encoding; spelled: frequent words, all others letter by letter


UNITS: dict[Units, type[Subwords] | type[SpelledWords]] = {"bpe": Subwords, "spelled": SpelledWords}


class SubwordTokenizer(Tokenizer):
    """The tokenizer of prepared text: words by Moses' rules, then their units.

    Args:
      settings: form, languages and units of the text.
      codes: content of the file of the units: merges, as subword-nmt writes them, or the dictionary.
    """

    def __init__(self, settings: TextSettings, codes: str):
        self.settings, self.codes = settings, codes
        self.target_language = known_code(settings.target_language)  # corpora may have been prepared with another
        self.by_characters = settings.form in _UNSEGMENTED_FORMS and self.target_language in WITHOUT_BLANKS
        self._units = UNITS[settings.units](codes)
        self._split_words = {
            "source": word_tokenizer(settings.form, settings.source_language),
            "target": word_tokenizer(settings.form, settings.target_language),
        }

    def files(self) -> dict[str, str]:
        return {SETTINGS: json.dumps(dataclasses.asdict(self.settings), indent=2) + "\n", self._units.file: self.codes}

    def encode(self, line: str, side: Side) -> list[str]:
        return self._units.segment(self._split_words[side](line))

    def decode(self, sentences: Iterable[list[str]]) -> list[str]:
        return list(map(without_line_breaks, self._units.undo(sentences)))

    def word_numbers(self, tokens: list[str]) -> list[int]:
        return self._units.word_numbers(tokens, segmented=self.settings.form not in _UNSEGMENTED_FORMS)

    def detokenize(self, lines: Iterable[str]) -> list[str]:
        return list(map(word_detokenizer(self.settings.form, self.settings.target_language), lines))

    def reference(self, line: str) -> str:
        return line if self.settings.form in _UNSEGMENTED_FORMS else self.detokenize([line])[0]


def read(folder: str) -> Tokenizer:
    """Reads the tokenizer of a prepared corpus or a run folder. Raises DataError, OSError."""
    path = os.path.join(folder, SETTINGS)
    if not os.path.exists(path):
        return Tokenizer()
    fields = files.read_json(path, dict.fromkeys(("form", "source_language", "target_language"), str))
    return read_units(folder, TextSettings(**fields))


def read_units(folder: str, settings: TextSettings) -> SubwordTokenizer:
    """Reads the merges or the dictionary of a folder, and returns the tokenizer. Raises DataError, OSError."""
    path = os.path.join(folder, UNITS[settings.units].file)
    codes = files.read_text(path)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # subword-nmt prints two lines, and exits
            return SubwordTokenizer(settings, codes)
    except (SystemExit, ValueError) as error:
        raise DataError(f"{path}: damaged: each line needs two units separated by a blank; copy it again") from error


def without_line_breaks(line: str) -> str:
    """Replaces tabs, and all characters that any program takes for the end of a line, by blanks."""
    return line.translate(_LINE_BREAKS)


def word_tokenizer(form: Form, language: str) -> Callable[[str], str]:
    """Returns a function that turns a line into words separated by spaces."""
    if form == "untokenized":
        return lambda line: " ".join(split_words(line))
    if form != "raw":
        return lambda line: " ".join(line.split())  # Moses' output has no other white space
    return functools.partial(_moses_tokenizer(language).tokenize, return_str=True, escape=False)


@functools.cache
def _moses_tokenizer(language: str) -> MosesTokenizer:
    return MosesTokenizer(language)


@functools.cache
def word_detokenizer(form: Form, language: str) -> Callable[[str], str]:
    """Returns a function that turns words separated by spaces into a line as people write it.

    The function undoes tokenization, truecasing of `truecased` text, and Moses' escapes, such as `&apos;`.
    """
    if form == "untokenized":
        return str
    detokenize, detruecase = MosesDetokenizer(language).detokenize, MosesDetruecaser().detruecase

    def undo(words: str) -> str:
        tokens = detruecase(words) if form == "truecased" and words else split_words(words)
        line = detokenize(tokens, unescape=form != "raw")
        return _BLANKS_AT_WIDE.sub("", line) if known_code(language) in HAN else line  # Moses leaves these blanks

    return undo


def known_code(code: str) -> str:
    """Returns the code by which Moses and sacreBLEU know a language: `zh` for zh-TW, zho_Hans or cmn, `ko` for KO."""
    language = re.split("[-_]", code)[0].lower()
    return SHORT_CODES.get(language) or NonbreakingPrefixes().available_langs.get(language, language)


def has_moses_rules(language: str) -> bool:
    """Returns whether Moses' tokenizer knows abbreviations or letters of a language; if not, it uses English ones."""
    known = NonbreakingPrefixes().available_langs.values()
    return language in known or _moses_tokenizer(language).IsAlnum != MosesTokenizer.IsAlnum


def blank_problem(settings: TextSettings, references: Iterable[str]) -> str | None:
    """Returns a warning if tokenizing and detokenizing changes blanks between letters in most targets, or None."""
    if settings.form != "raw":
        return None
    language = settings.target_language
    tokenize, detokenize = word_tokenizer(settings.form, language), word_detokenizer(settings.form, language)
    lines = [" ".join(line.split()) for line in references if line.strip()]
    changed = sum(_PUNCTUATION.sub("", detokenize(tokenize(line))) != _PUNCTUATION.sub("", line) for line in lines)
    if 2 * changed <= len(lines):
        return None
    return (
        f"{changed:,} of {len(lines):,} targets come back from Moses' tokenizer with other blanks between letters; "
        f"is their language {language!r} (--target_language)? --form untokenized leaves the text as it is"
    )


def bleu_problem(tokenizer: Tokenizer, references: Iterable[str]) -> str | None:
    """Returns a warning if nearly all references are shorter than the longest n-grams that BLEU counts, or None.

    These are runs of four words, or of four characters if the tokenizer compares `by_characters`.
    """
    unit = "characters" if tokenizer.by_characters else "words"
    lengths = [
        len("".join(words) if tokenizer.by_characters else words) for words in map(split_words, references) if words
    ]
    if sum(length >= 4 for length in lengths) >= _LEAST_LONG_LINES * len(lengths):
        return None
    return f"BLEU will stay near 0: it counts runs of four {unit}, and nearly all targets are shorter"
