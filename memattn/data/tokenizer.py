"""From a line of text to the tokens of a model and back: Moses tokenization, byte-pair encoding, and both undone."""

import dataclasses
import functools
import json
import os
from collections.abc import Callable
from typing import Literal, get_args

from sacremoses import MosesDetokenizer, MosesDetruecaser, MosesTokenizer

from memattn.data import bpe
from memattn.errors import DataError

SETTINGS, CODES = "text.json", "bpe.codes"
FILES = (SETTINGS, CODES)
Form = Literal["raw", "tokenized", "truecased"]


@dataclasses.dataclass(frozen=True)
class TextSettings:
    """The form of a corpus' lines: `raw` text, `tokenized` by Moses, or tokenized and `truecased`."""

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
        return bpe.word_numbers(tokens)

    def detokenize(self, words: str) -> str:
        """The target's words as people write them, for detokenized BLEU."""
        return detokenizer(self.settings.form, self.settings.target_language)(words)

    def reference(self, line: str) -> str:
        """A line of the target as people write it: itself, if it is raw."""
        return line if self.settings.form == "raw" else self.detokenize(line)


class Tokens:
    """Replaces `Text` for a corpus that came as tokens."""

    def files(self) -> dict[str, str]:
        return {}

    def encode(self, line: str, side: Literal["source", "target"]) -> list[str]:
        del side
        return line.split()

    def decode(self, tokens: list[str]) -> str:
        return " ".join(tokens)

    def word_numbers(self, tokens: list[str]) -> list[int]:
        return list(range(len(tokens)))

    def detokenize(self, words: str) -> str:
        return words

    def reference(self, line: str) -> str:
        return " ".join(line.split())


def tokenizer(form: Form, language: str) -> Callable[[str], str]:
    """Turns a line into words divided by spaces, as the lines of a tokenized corpus already are."""
    if form != "raw":
        return lambda line: line
    return functools.partial(_moses_tokenizer(language).tokenize, return_str=True, escape=False)


@functools.cache
def _moses_tokenizer(language: str) -> MosesTokenizer:
    return MosesTokenizer(language)


@functools.cache
def detokenizer(form: Form, language: str) -> Callable[[str], str]:
    """Undoes truecasing if there was any, tokenization, and, if Moses did both, its escapes (`&apos;`)."""
    detokenize, detruecase = MosesDetokenizer(language).detokenize, MosesDetruecaser().detruecase

    def undo(words: str) -> str:
        tokens = detruecase(words) if form == "truecased" and words else words.split()
        return detokenize(tokens, unescape=form != "raw")

    return undo


def read(folder: str) -> Text | Tokens:
    """The text settings of a prepared corpus or a run folder. Raises DataError."""
    paths = [os.path.join(folder, name) for name in FILES]
    if not any(os.path.exists(path) for path in paths):
        return Tokens()
    contents = []
    for path in paths:
        try:
            with open(path, encoding="utf-8", newline="\n") as file:
                contents.append(file.read())
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: unreadable ({getattr(error, 'strerror', None) or error})") from error
    try:
        settings = TextSettings(**json.loads(contents[0]))
        if settings.form not in get_args(Form):
            raise ValueError(f"form {settings.form!r} is none of {', '.join(get_args(Form))}")
    except (ValueError, TypeError) as error:
        raise DataError(f"{paths[0]}: not the settings of a text: {error}") from error
    return Text(settings, bpe.checked(contents[1], paths[1]))
