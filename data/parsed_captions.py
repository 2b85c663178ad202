"""Prepares trees of Multi30k's English captions, as link-grammar's parser writes them.

apt-get install link-grammar
python data/parsed_captions.py

Such trees are made by a program, not by people. They have no parts of speech: each word has the tag XX. The parser
writes the first word of a sentence in small letters unless the word is a name, and leaves out sentences that it cannot
read. In place of "%", trees have "percent".
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os
import re
import warnings
from collections.abc import Iterable, Iterator

import multi30k
import recipes
from absl import flags

from memattn import files
from memattn.data.preparation.commands import define_tree_flags, prepare_trees

TREES = "data/downloads/link_grammar"
COMMAND = ["link-parser", "en", "-constituents=3", "-verbosity=0", "-graphics=0", "-spell=0", "-width=100000"]
_LONGEST_LINE = 2_000  # bytes; the parser ends at a line of more than 2,045
_TAGS = {**dict.fromkeys(".!?", "."), ",": ",", **dict.fromkeys([":", ";", "--", "..."], ":"), '"': "''"}


def main() -> None:
    options = flags.FLAGS
    os.makedirs(TREES, exist_ok=True)
    splits = {}
    for split, (english, _) in multi30k.fetch(multi30k.URL, multi30k.DOWNLOADS).items():
        splits[split] = [f"{TREES}/{split}.trees"]
        files.write_lines(splits[split][0], parse(files.read_lines(english)))
    prepare_trees(options, splits)


def parse(sentences: Iterable[str]) -> list[str]:
    """Returns the trees of sentences, and warns of those that have none. Raises ConfigError, RunError."""
    lines = [line for line in map(_input_line, sentences) if line.strip()]
    text = "".join(line for line in lines if len(line.encode()) <= _LONGEST_LINE)
    parsed = list(trees(recipes.run(COMMAND, "install it: apt-get install link-grammar", input=text)))
    if len(parsed) < len(lines):
        warnings.warn(f"{len(lines) - len(parsed):,} of {len(lines):,} sentences have no tree", stacklevel=2)
    return parsed


def _input_line(sentence: str) -> str:
    """Returns the line that gives a sentence to the parser, and begins with a blank: "!" would begin a command.

    The sentence loses brackets, which trees have, and "%", which the parser hands to C's `printf` within a format.
    """
    words = re.sub(r"[()\[\]{}]", "", sentence).replace("%", " percent ").split()
    return f" {' '.join(words)}\n"


def trees(output: str) -> Iterator[str]:
    """Yields the trees of the parser's output, with a bracket for each word.

    The parser marks words that it guessed or could not link, as in "Metro{!}" and "{into}", and senses of words, as in
    "girl.n", "while.#while".
    """
    for line in output.split("\n"):
        if line.startswith("("):
            line = re.sub(r"[{}]", "", re.sub(r"(?<=[^ (]){[!?~]}", "", line))
            line = re.sub(r"(?<=[^ ])\.#?[a-z][-a-z]*(?=[ )])", "", line)
            yield re.sub(r" ([^ ()]+)", lambda match: f" ({_TAGS.get(match[1], 'XX')} {match[1]})", line)


if __name__ == "__main__":
    define_tree_flags("data/trees")
    cli.run(main)
