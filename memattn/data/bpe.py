"""Byte-pair encoding by subword-nmt: learns it from words, applies it to lines, and undoes it exactly."""

import contextlib
import io
import itertools
import re
import sys
from collections import Counter

import regex
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from memattn.data.vocabulary import SPECIAL_TOKENS
from memattn.errors import DataError

SEPARATOR = "@@"  # at the end of a unit: the word continues
_CACHED_WORDS = 1_000_000
# Escaped as by OpenNMT's Tokenizer, with a fullwidth percent sign and four hexadecimal digits: that sign itself, white
# space other than single spaces between words, and an end of a word that looks like SEPARATOR.
_TO_ESCAPE = re.compile(r"％|^ | $|(?<= ) |[^\S ]|[\x1c-\x1f\x85]|@(?=@(?: |$))")
_ESCAPED = re.compile(r"％(?!d[89a-f])([0-9a-f]{4})")  # half a surrogate pair is not a character
_SCRIPT_WITHOUT_BLANKS = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
)
_COMBINING_MARK = regex.compile(r"\p{M}")  # belongs to the letter before it


class Subwords:
    """Byte-pair encoding made reversible by an escape.

    Args:
      codes: merges, as subword-nmt writes them.

    Attributes:
      file: name of the file that holds the merges.
    """

    file = "bpe.codes"

    def __init__(self, codes: str):
        self._bpe = BPE(io.StringIO(codes), separator=SEPARATOR)

    def segment(self, line: str) -> list[str]:
        """Splits a line into units. `undo` restores it exactly, including its white space."""
        if len(self._bpe.cache) > _CACHED_WORDS:
            self._bpe.cache.clear()
        return self._bpe.segment_tokens(escape(line).split(" "))

    @staticmethod
    def undo(units: list[str]) -> str:
        """Joins units into a line."""
        joined = " ".join(units)
        return unescape(joined.replace(f"{SEPARATOR} ", "").removesuffix(SEPARATOR))

    @staticmethod
    def word_numbers(units: list[str], *, segmented: bool = True) -> list[int]:
        """Returns, for each unit, the number of the word that it belongs to.

        Unless blanks separate all words (`segmented`), each unit of a script without blanks between words is a word:
        "我们@@ 用@@ Mo@@ ses" has three words.
        """
        starts = (
            int(not left.endswith(SEPARATOR) or not segmented and _are_two_words(left.removesuffix(SEPARATOR), right))
            for left, right in itertools.pairwise(units)
        )
        return [0, *itertools.accumulate(starts)][: len(units)]

    @classmethod
    def learn(cls, words: Counter[str], size: int) -> tuple[str, list[str]]:
        """Learns up to `size` merges from counts of escaped words.

        Returns the merges as subword-nmt's codes, and the `size` units that occur most often, most frequent first.
        Raises DataError if there is no merge.
        """
        counted = io.StringIO("".join(f"{word} {words[word]}\n" for word in ranked(words)))
        codes = io.StringIO()
        quiet = contextlib.nullcontext() if sys.stderr.isatty() else contextlib.redirect_stderr(io.StringIO())
        with quiet, contextlib.suppress(ValueError):  # raised, with all merges written, when no pair is left
            learn_bpe(counted, codes, size, is_dict=True)
        if codes.getvalue().count("\n") == 1:
            raise DataError("too little training text for BPE: no two letters occur together twice")
        subwords, units = cls(codes.getvalue()), Counter[str]()
        for word, count in words.items():
            for unit in subwords.segment(unescape(word)):
                units[unit] += count
        for special in SPECIAL_TOKENS:  # in text they are unknown words
            units.pop(special, None)
        return codes.getvalue(), ranked(units)[:size]


def ranked(counts: Counter[str]) -> list[str]:
    """Returns the items, the most frequent first, and equally frequent items by their code points."""
    return [item for item, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def escape(line: str) -> str:
    """Turns a line into words separated by single spaces, without other white space."""
    return _TO_ESCAPE.sub(lambda match: f"％{ord(match[0]):04x}", line)


def unescape(line: str) -> str:
    """Undoes `escape`."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), line)


def _are_two_words(left: str, right: str) -> bool:
    """Returns whether adjacent units are two words: one of them has a script without blanks between words."""
    without_blanks = any(map(_SCRIPT_WITHOUT_BLANKS.match, (left[-1:], right)))
    return without_blanks and _COMBINING_MARK.match(right) is None
