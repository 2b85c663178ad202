"""Parses English sentences by link-grammar's parser, one tree a line, for `memattn-prepare parsing`.

apt-get install link-grammar
python scripts/parse_sentences.py < train.en > train.trees

Such trees are made by a program, not by people. They have no parts of speech: each word has the tag XX. The parser
writes the first word of a sentence in small letters unless the word is a name, and leaves out sentences that it cannot
read. In place of "%", trees have "percent".
"""

import memattn.cli as cli  # isort: skip (Ctrl-C ends the process with one line from here on)

import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator

from memattn.errors import ConfigError, DataError, RunError

COMMAND = ["link-parser", "en", "-constituents=3", "-verbosity=0", "-graphics=0", "-spell=0", "-width=100000"]
_LONGEST_LINE = 2_000  # bytes; the parser ends at a line of more than 2,045
_TAGS = {**dict.fromkeys(".!?", "."), ",": ",", **dict.fromkeys([":", ";", "--", "..."], ":"), '"': "''"}


def main() -> int:
    if shutil.which(COMMAND[0]) is None:
        raise ConfigError("link-parser is missing; install it: apt-get install link-grammar")
    lines = [line for line in map(_input_line, _lines()) if line.strip()]
    sentences = "".join(line for line in lines if len(line.encode()) <= _LONGEST_LINE)
    result = subprocess.run(COMMAND, input=sentences, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if result.returncode:
        raise RunError(f"{COMMAND[0]}: ended with status {result.returncode}")
    parsed = list(trees(result.stdout))
    for tree in parsed:
        print(tree)
    if len(parsed) < len(lines):
        warnings.warn(f"{len(lines) - len(parsed):,} of {len(lines):,} sentences have no tree", stacklevel=1)
    return 0


def _input_line(sentence: str) -> str:
    """Returns the line that gives a sentence to the parser, and begins with a blank: "!" would begin a command.

    The sentence loses brackets, which trees have, and "%", which the parser hands to C's `printf` within a format.
    """
    words = re.sub(r"[()\[\]{}]", "", sentence).replace("%", " percent ").split()
    return f" {' '.join(words)}\n"


def _lines() -> Iterator[str]:
    """Yields the lines of standard input. Raises DataError for a line that is not UTF-8."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"standard input, line {number}: not UTF-8") from error


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
    cli.run(main)
