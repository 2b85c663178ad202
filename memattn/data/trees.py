"""Constituency trees: reads brackets, and turns trees into tokens of a target and back into labelled spans.

A target is a tree without its words, as in Vinyals et al. (2015), *Grammar as a Foreign Language*: "(S (NP XX )NP
(VP XX )VP . )S". `XX` replaces each word, whatever its part of speech; its tag replaces a punctuation mark.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from memattn.data.text_files import read_lines
from memattn.data.vocabulary import split_words
from memattn.errors import DataError, abbreviated

WORD = "XX"
PUNCTUATION = frozenset({",", ".", ":", "``", "''"})  # tags of the Penn Treebank that EVALB leaves out
_TRACE = "-NONE-"
_TOPS = frozenset({"", "TOP", "ROOT", "S1"})  # labels of brackets that targets leave out, such as that around a tree
_EQUAL_LABELS = {"PRT": "ADVP"}  # as EVALB has it
_PARTS = re.compile(r"[()]|[^\s()]+", re.ASCII)


class Parse(NamedTuple):
    """The words of a sentence, and its tree as the tokens of a target."""

    words: list[str]
    target: list[str]


@dataclasses.dataclass
class _Bracket:
    """A bracket that is not closed yet.

    Attributes:
      line: number of the line where it opens.
      place: number of tokens of the target before the bracket.
      label: label of the bracket; a part of speech if the bracket holds a word.
      word: the word, if the bracket holds one.
      is_empty: whether the bracket has neither a word nor brackets inside so far.
    """

    line: int
    place: int
    label: str | None = None
    word: str | None = None
    is_empty: bool = True


def read(path: str) -> list[Parse]:
    """Reads the trees of a file, plain or .gz: the Penn Treebank's .mrg, or any other brackets with parts of speech.

    Traces (-NONE-) and brackets that hold nothing else are left out, and so are function tags (-SBJ, =2) and brackets
    such as the one around a whole tree (TOP, or no label).

    Raises DataError, which names the line of a tree that cannot be read.
    """
    parses: list[Parse] = []
    stack: list[_Bracket] = []
    words: list[str] = []
    target: list[str] = []
    for line, content in enumerate(read_lines(path), 1):
        place = f"{path}:{line}"
        for part in _PARTS.findall(content):
            if part == "(":
                if stack:
                    _check_open(stack[-1], place)
                    stack[-1].is_empty = False
                stack.append(_Bracket(line, len(target)))
            elif not stack:
                raise DataError(f"{place}: {abbreviated(part)} is outside of all brackets")
            elif part != ")":
                _add(stack[-1], part, place)
            else:
                _close(stack.pop(), words, target, place)
                if not stack:
                    if not words:
                        raise DataError(f"{place}: a tree without words")
                    parses.append(Parse(words, target))
                    words, target = [], []
    if stack:
        raise DataError(f"{path}:{stack[0].line}: the tree that begins here lacks closing brackets: {len(stack):,}")
    if not parses:
        raise DataError(f"{path}: has no tree")
    return parses


def _check_open(bracket: _Bracket, place: str) -> None:
    """Raises DataError if a bracket holds a word already: such a bracket can hold nothing else."""
    if bracket.word is not None:
        raise DataError(f"{place}: the word {abbreviated(bracket.word)} needs its own bracket: (XX {bracket.word})")


def _add(bracket: _Bracket, part: str, place: str) -> None:
    """Adds a label or a word to a bracket."""
    _check_open(bracket, place)
    if bracket.label is None and bracket.is_empty:
        bracket.label = part
    elif bracket.is_empty:
        bracket.word, bracket.is_empty = part, False
    else:
        raise DataError(f"{place}: the word {abbreviated(part)} needs its own bracket: (XX {part})")


def _close(bracket: _Bracket, words: list[str], target: list[str], place: str) -> None:
    """Adds a complete bracket to the words and the target of its tree."""
    label = bracket.label or ""
    if bracket.is_empty:
        raise DataError(f"{place}: the bracket ({label}) is empty")
    if bracket.word is not None:
        if label != _TRACE:
            words.append(bracket.word)
            target.append(label if label in PUNCTUATION else WORD)
        return
    if bracket.place == len(target):  # it held traces alone
        return
    label = re.split("[-=|]", label)[0] or label
    if label not in _TOPS:
        target.insert(bracket.place, f"({label}")
        target.append(f"){label}")


Span = tuple[str, int, int]  # label, number of the first word, and of the word after the last


class Spans(NamedTuple):
    """The brackets of a tree.

    Attributes:
      brackets: number of brackets with each label and words. Brackets around punctuation alone are left out.
      words: number of words without punctuation.
    """

    brackets: Counter[Span]
    words: int


def are_trees(targets: Iterable[str]) -> bool:
    """Returns whether all targets are trees, of which one or more have a bracket: punctuation alone is no tree."""
    trees = list(map(spans, targets))
    return all(trees) and any(tree.brackets for tree in trees if tree)


def spans(target: str) -> Spans | None:
    """Returns the labelled spans of a target; None if it is no tree.

    As in EVALB, punctuation is no word, and PRT and ADVP are the same label.
    """
    brackets, stack, words, punctuation = Counter[Span](), [], 0, 0
    for token in split_words(target):
        if token == WORD:
            words += 1
        elif token in PUNCTUATION:
            punctuation += 1
        elif token[0] == "(" and len(token) > 1:
            stack.append((token[1:], words))
        elif token[0] == ")" and stack and stack[-1][0] == token[1:]:
            label, start = stack.pop()
            if start < words:
                brackets[_EQUAL_LABELS.get(label, label), start, words] += 1
        else:
            return None
    return None if stack or not words + punctuation else Spans(brackets, words)
