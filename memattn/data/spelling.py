"""Divides text into words of a dictionary, and all other words into letters, as in Kaiser & Bengio (2016)."""

import itertools
from collections import Counter

from memattn.data.bpe import escape, ranked, unescape
from memattn.data.vocabulary import SPECIAL_TOKENS

SPACE = "<space>"  # between two characters that do not belong to one word; all other spaces are implied


class SpelledWords:
    """Splits lines into words and characters; reversible, as characters are units of length 1 and words are longer.

    Args:
      dictionary: the words that are not spelled out, one a line.

    Attributes:
      file: name of the file that holds the dictionary.
    """

    file = "words.txt"

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
    def undo(units: list[str]) -> str:
        """Joins units into a line."""
        words: dict[int, str] = {}
        for unit, number in zip(units, SpelledWords.word_numbers(units), strict=True):
            if unit != SPACE:
                words[number] = words.get(number, "") + unit
        return unescape(" ".join(words.values()))

    @staticmethod
    def word_numbers(units: list[str], *, segmented: bool = True) -> list[int]:
        """Returns, for each unit, the number of the word that it belongs to.

        A SPACE belongs to the word after it, or if there is none, to the word before it.
        """
        del segmented  # words are what blanks separate
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


def _are_characters(left: str, right: str) -> bool:
    return len(left) == len(right) == 1
