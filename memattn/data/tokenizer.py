"""From a line of text to the tokens of a model and back: Moses tokenization, byte-pair encoding, and both undone."""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Callable, Iterable
from typing import Literal, get_args

import regex
from sacremoses import MosesDetokenizer, MosesDetruecaser, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from memattn import reading
from memattn.data import bpe
from memattn.data.vocabulary import split_words
from memattn.errors import DataError, shown

SETTINGS, CODES = "text.json", "bpe.codes"
FILES = (SETTINGS, CODES)
Form = Literal["raw", "tokenized", "truecased", "untokenized"]
_AS_WRITTEN = ("raw", "untokenized")  # nobody has divided the lines into words
_HAN = frozenset({"zh", "cmn", "yue", "wuu", "lzh", "ja"})
_WITHOUT_BLANKS = _HAN | {"th", "lo", "km", "my", "shn", "bo", "dz"}
_WIDE = r"[[\p{P}\p{S}]--[\x00-\x7f]]"  # punctuation and symbols that are not ASCII
_BLANKS_AT_WIDE = regex.compile(rf"(?V1) (?={_WIDE})|(?<={_WIDE}) ")
_PUNCTUATION = regex.compile(r" ?[\p{P}\p{S}] ?")
_BREAKS = str.maketrans(dict.fromkeys("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029", " "))
_FEW = 0.05  # share of lines


@dataclasses.dataclass(frozen=True)
class TextSettings:
    """The form of a corpus' lines and their languages.

    `raw` text is tokenized by Moses' rules; `tokenized` lines already are, `truecased` ones are also truecased.
    `untokenized` text stays as it is but for repeated blanks, and its words are what blanks divide.
    """

    form: Form
    source_language: str
    target_language: str


class Text:
    """Turns lines of a corpus into tokens and back, as its preparation did."""

    def __init__(self, settings: TextSettings, codes: str):
        self.settings, self.codes = settings, codes
        self._subwords = bpe.Subwords(codes)
        self._tokenize = {
            side: tokenizer(settings.form, language)
            for side, language in (("source", settings.source_language), ("target", settings.target_language))
        }

    @property
    def target_language(self) -> str:
        """The code of the target's language."""
        return self.settings.target_language

    @property
    def by_characters(self) -> bool:
        """Whether BLEU on tokens is on characters: the target's language has no blanks between words, and nobody has
        divided its lines into words."""
        return self.settings.form in _AS_WRITTEN and self.target_language in _WITHOUT_BLANKS

    def files(self) -> dict[str, str]:
        """Names and contents of the files from which `read` restores this."""
        return {SETTINGS: json.dumps(dataclasses.asdict(self.settings), indent=2) + "\n", CODES: self.codes}

    def encode(self, line: str, side: Literal["source", "target"]) -> list[str]:
        """Tokens of a line of text."""
        return self._subwords.segment(self._tokenize[side](line))

    def decode(self, tokens: list[str]) -> str:
        """Tokens as words divided by spaces, for BLEU on tokens."""
        return self._subwords.undo(tokens)

    def word_numbers(self, tokens: list[str]) -> list[int]:
        """For each token, the number of the word that it belongs to."""
        return bpe.word_numbers(tokens, segmented=self.settings.form not in _AS_WRITTEN)

    def detokenize(self, words: str) -> str:
        """The target's words as people write them, for detokenized BLEU."""
        return detokenizer(self.settings.form, self.settings.target_language)(words)

    def reference(self, line: str) -> str:
        """A line of the target as people write it: itself, unless it is tokenized."""
        return line if self.settings.form in _AS_WRITTEN else self.detokenize(line)


class Tokens:
    """Replaces `Text` for a corpus that came as tokens."""

    target_language, by_characters = "", False

    def files(self) -> dict[str, str]:
        return {}

    def encode(self, line: str, side: Literal["source", "target"]) -> list[str]:
        del side
        return split_words(line)

    def decode(self, tokens: list[str]) -> str:
        return " ".join(tokens)

    def word_numbers(self, tokens: list[str]) -> list[int]:
        return list(range(len(tokens)))

    def detokenize(self, words: str) -> str:
        return one_line(words)

    def reference(self, line: str) -> str:
        return " ".join(split_words(line))


def one_line(line: str) -> str:
    """The line with blanks in place of tabs and of all characters that any program takes for the end of a line."""
    return line.translate(_BREAKS)


def moses_language(code: str) -> str:
    """The code by which Moses and sacreBLEU know a language: `zh` for zh-TW or zh_CN, `ko` for KO."""
    language = re.split("[-_]", code)[0].lower()
    return NonbreakingPrefixes().available_langs.get(language, language)


def has_moses_rules(language: str) -> bool:
    """Whether Moses' tokenizer knows abbreviations or letters of the language; else it takes it for English."""
    known = NonbreakingPrefixes().available_langs.values()
    return language in known or _moses_tokenizer(language).IsAlnum != MosesTokenizer.IsAlnum


def blank_problem(settings: TextSettings, references: Iterable[str]) -> str | None:
    """Says that tokenization of the target and its inverse lose or add blanks between letters, if they mostly do."""
    if settings.form != "raw":
        return None
    language = settings.target_language
    there, back = tokenizer(settings.form, language), detokenizer(settings.form, language)
    lines = [" ".join(line.split()) for line in references if line.strip()]
    changed = sum(_PUNCTUATION.sub("", back(there(line))) != _PUNCTUATION.sub("", line) for line in lines)
    if 2 * changed <= len(lines):
        return None
    return (
        f"{changed:,} of {len(lines):,} targets come back from Moses' tokenizer with other blanks between letters; "
        f"is their language {language!r} (--target_language)? --form untokenized leaves the text as it is"
    )


def bleu_problem(text: Text | Tokens, references: Iterable[str]) -> str | None:
    """Says that BLEU on tokens, which counts runs of four words, stays near 0, if nearly all references are shorter."""
    unit = "characters" if text.by_characters else "words"
    lengths = [len("".join(words) if text.by_characters else words) for words in map(split_words, references) if words]
    if sum(length >= 4 for length in lengths) >= _FEW * len(lengths):
        return None
    return f"BLEU will stay near 0: it counts runs of four {unit}, and nearly all targets are shorter"


def tokenizer(form: Form, language: str) -> Callable[[str], str]:
    """Turns a line into words divided by spaces, as the lines of a tokenized corpus already are."""
    if form == "untokenized":
        return lambda line: " ".join(split_words(line))
    if form != "raw":
        return lambda line: " ".join(line.split())  # as Moses leaves it: no other white space
    return functools.partial(_moses_tokenizer(language).tokenize, return_str=True, escape=False)


@functools.cache
def _moses_tokenizer(language: str) -> MosesTokenizer:
    return MosesTokenizer(language)


@functools.cache
def detokenizer(form: Form, language: str) -> Callable[[str], str]:
    """Undoes truecasing if there was any, tokenization, and, if Moses did both, its escapes (`&apos;`)."""
    if form == "untokenized":
        return one_line
    detokenize, detruecase = MosesDetokenizer(language).detokenize, MosesDetruecaser().detruecase

    def undo(words: str) -> str:
        tokens = detruecase(words) if form == "truecased" and words else split_words(words)
        line = detokenize(tokens, unescape=form != "raw")
        return _BLANKS_AT_WIDE.sub("", line) if language in _HAN else line  # Moses leaves them there

    return undo


def read(folder: str) -> Text | Tokens:
    """The text settings of a prepared corpus or a run folder. Raises DataError."""
    paths = [os.path.join(folder, name) for name in FILES]
    if not any(os.path.exists(path) for path in paths):
        return Tokens()
    try:
        written = reading.json_file(paths[0], dict.fromkeys(TextSettings.__dataclass_fields__, str))
        codes = reading.text(paths[1])
    except OSError as error:
        raise DataError(f"{error.filename}: unreadable ({error.strerror})") from error
    if unknown := written.keys() - TextSettings.__dataclass_fields__.keys():
        raise DataError(f"{paths[0]}: {shown(min(unknown))} is no setting of a text")
    settings = TextSettings(**written)
    if settings.form not in get_args(Form):
        raise DataError(f"{paths[0]}: form: {shown(settings.form)} is none of {', '.join(get_args(Form))}")
    return Text(settings, bpe.checked(codes, paths[1]))
