"""Constituency trees: reads brackets, and turns trees into tokens of a target and back into labelled spans.

A target is a tree without its words, as in Vinyals et al. (2015), *Grammar as a Foreign Language*: "(S (NP XX )NP
(VP XX )VP . )S". `XX` replaces each word, whatever its part of speech; its tag replaces a punctuation mark.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from memattn.data.vocabulary import split_words
from memattn.errors import DataError, abbreviated
from memattn.files import read_lines

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


class _Bracket(NamedTuple):
    """A bracket of a file: the number of the line where it opens, and its parts, which are brackets and words."""

    line: int
    parts: list


def read(path: str) -> list[Parse]:
    """Reads the trees of a file, plain or .gz: the Penn Treebank's .mrg, or any other brackets with parts of speech.

    Traces (-NONE-) and brackets that hold nothing else are left out, and so are function tags (-SBJ, =2) and brackets
    such as the one around a whole tree (TOP, or no label).

    Raises OSError, and DataError, which names the line of a tree that cannot be read.
    """
    parses: list[Parse] = []
    stack: list[_Bracket] = []
    for line, content in enumerate(read_lines(path), 1):
        for part in _PARTS.findall(content):
            if part == "(":
                stack.append(_Bracket(line, []))
            elif not stack:
                raise DataError(f"{path}:{line}: {abbreviated(part)} is outside of all brackets")
            elif part != ")":
                stack[-1].parts.append(part)
            elif len(stack) > 1:
                stack[-2].parts.append(stack.pop())
            else:
                parses.append(_parse(stack.pop(), path))
    if stack:
        raise DataError(f"{path}:{stack[0].line}: the tree that begins here lacks closing brackets: {len(stack):,}")
    if not parses:
        raise DataError(f"{path}: has no tree")
    return parses


def _parse(tree: _Bracket, path: str) -> Parse:
    parse = Parse([], [])
    _add(tree, parse, path)
    if not parse.words:
        raise DataError(f"{path}:{tree.line}: a tree without words")
    return parse


def _add(bracket: _Bracket, parse: Parse, path: str) -> None:
    """Adds a bracket, and all that it holds, to a parse. Raises DataError."""
    words = [part for part in bracket.parts if isinstance(part, str)]
    brackets = [part for part in bracket.parts if isinstance(part, _Bracket)]
    label = words[0] if words and bracket.parts[0] == words[0] else ""
    if not brackets and len(words) == 2:  # a part of speech and its word
        if label != _TRACE:
            parse.words.append(words[1])
            parse.target.append(label if label in PUNCTUATION else WORD)
        return
    misplaced = words[1:] if label else words
    if misplaced or not brackets:
        word = misplaced[0] if misplaced else label
        raise DataError(f"{path}:{bracket.line}: the word {abbreviated(word)} needs its own bracket: (XX {word})")
    start = len(parse.target)
    for part in brackets:
        _add(part, parse, path)
    label = re.split("[-=|]", label)[0] or label
    if label not in _TOPS and len(parse.target) > start:  # else it held traces alone
        parse.target.insert(start, f"({label}")
        parse.target.append(f"){label}")


Span = tuple[str, int, int]  # label, number of the first word, and of the word after the last


class Spans(NamedTuple):
    """The brackets of a tree."""

    brackets: Counter[Span]  # brackets with each label and words; those around punctuation alone are left out
    words: int  # number of words without punctuation


def are_trees(targets: Iterable[str]) -> bool:
    """Returns whether all targets are trees, of which one or more have a bracket: punctuation alone is no tree."""
    has_brackets = False
    for target in targets:
        if (tree := spans(target)) is None:
            return False
        has_brackets |= bool(tree.brackets)
    return has_brackets


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
