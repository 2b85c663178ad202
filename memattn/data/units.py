"""Units of words: byte-pair encoding by subword-nmt, or frequent words and letters; both are undone exactly."""

import contextlib
import io
import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterable

import regex
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from memattn.data.vocabulary import SPECIAL_TOKENS
from memattn.errors import DataError

SEPARATOR = "@@"  # of byte-pair encoding, at the end of a unit: the word continues
SPACE = "<space>"  # of `SpelledWords`, between two characters that do not belong to one word; other spaces are implied
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
    """Byte-pair encoding made reversible by an escape. `codes` are merges, as subword-nmt writes them."""

    file = "bpe.codes"  # name of the file of the merges

    def __init__(self, codes: str):
        self._bpe = BPE(io.StringIO(codes), separator=SEPARATOR)

    def segment(self, line: str) -> list[str]:
        """Splits a line into units. `undo` restores it exactly, including its white space."""
        if len(self._bpe.cache) > _CACHED_WORDS:
            self._bpe.cache.clear()
        return self._bpe.segment_tokens(escape(line).split(" "))

    @staticmethod
    def undo(sentences: Iterable[list[str]]) -> list[str]:
        """Joins the units of sentences into lines."""
        lines = map(" ".join, sentences)
        return [unescape(line.replace(f"{SEPARATOR} ", "").removesuffix(SEPARATOR)) for line in lines]

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


class SpelledWords:
    """Divides text into words of a dictionary, and all other words into characters, as in Kaiser & Bengio (2016).

    It is reversible, as characters are units of length 1 and words are longer. `dictionary` has the words that are not
    spelled out, one a line.
    """

    file = "words.txt"  # name of the file of the dictionary

    def __init__(self, dictionary: str):
        self._words = frozenset(dictionary.split("\n")[:-1])

    def segment(self, line: str) -> list[str]:
        """Splits a line into units. `undo` restores it."""
        units: list[str] = []
        for word in escape(line).split(" "):
            spelled = [word] if word in self._words else list(word)
            if units and spelled and _are_characters(units[-1], spelled[0]):
                units.append(SPACE)
            units += spelled
        return units

    @staticmethod
    def undo(sentences: Iterable[list[str]]) -> list[str]:
        """Joins the units of sentences into lines."""
        lines = []
        for units in sentences:
            words: dict[int, str] = {}
            for unit, number in zip(units, SpelledWords.word_numbers(units), strict=True):
                if unit != SPACE:
                    words[number] = words.get(number, "") + unit
            lines.append(unescape(" ".join(words.values())))
        return lines

    @staticmethod
    def word_numbers(units: list[str], *, segmented: bool = True) -> list[int]:
        """Returns, for each unit, the number of the word that it belongs to.

        A SPACE belongs to the word after it, or if there is none, to the word before it.
        """
        end = max((i for i, unit in enumerate(units) if unit != SPACE), default=-1)  # the last unit that is not SPACE
        starts = (
            i <= end and left != SPACE and not _are_characters(left, right)
            for i, (left, right) in enumerate(itertools.pairwise(units), 1)
        )
        return [0, *itertools.accumulate(map(int, starts))][: len(units)]

    @staticmethod
    def learn(words: Counter[str], size: int) -> tuple[str, list[str]]:
        """Returns the dictionary of the most frequent words, and at most `size` units.

        These are SPACE, the characters of all words, most frequent first, and the dictionary.
        """
        characters = Counter[str]()
        for word, count in words.items():
            for character in word:
                characters[character] += count
        reserved = {SPACE, *SPECIAL_TOKENS}
        longer = Counter({word: count for word, count in words.items() if len(word) > 1 and word not in reserved})
        dictionary = ranked(longer)[: max(0, size - len(characters) - 1)]
        return "".join(f"{word}\n" for word in dictionary), [SPACE, *ranked(characters), *dictionary][:size]


def ranked(counts: Counter[str]) -> list[str]:
    """Returns the items, the most frequent first, and equally frequent items by their code points."""
    return [item for item, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def escape(line: str) -> str:
    """Turns a line into words separated by single spaces, without other white space."""
    return _TO_ESCAPE.sub(lambda match: f"％{ord(match[0]):04x}", line)


def escaped_words(line: str) -> list[str]:
    return [word for word in escape(line).split(" ") if word]


def unescape(line: str) -> str:
    """Undoes `escape`."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), line)


def _are_two_words(left: str, right: str) -> bool:
    """Returns whether adjacent units are two words: one of them has a script without blanks between words."""
    without_blanks = any(map(_SCRIPT_WITHOUT_BLANKS.match, (left[-1:], right)))
    return without_blanks and _COMBINING_MARK.match(right) is None


def _are_characters(left: str, right: str) -> bool:
    return len(left) == len(right) == 1
