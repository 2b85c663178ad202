"""The output of link-grammar's parser becomes trees that can be read."""

import os
import subprocess
import sys

import pytest
from helpers.repository import ROOT
from parse_sentences import trees


def test_marks_of_the_parser_are_removed_and_words_get_brackets():
    output = (
        "width set to 100000\n\n"
        "(ADJP (S (VP (ADJP a little.a girl.n-u climbing.g) {into} the Metro{!} {,} {Foo{!}.n} U.S. 2.50) .))\n\n"
        "(SBAR while.#while (S ! (NP it.j-n)))\nBye.\n"
    )
    assert list(trees(output)) == [
        "(ADJP (S (VP (ADJP (XX a) (XX little) (XX girl) (XX climbing)) (XX into) (XX the) (XX Metro) (, ,) (XX Foo) "
        "(XX U.S.) (XX 2.50)) (. .)))",
        "(SBAR (XX while) (S (. !) (NP (XX it))))",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"a dog\n\xe9t\xe9\n", "standard input, line 2: not UTF-8"), (b"a dog\n", "link-parser: ended with status 3")],
)
def test_bad_input_and_a_failing_parser_are_named_in_one_line(text, message, tmp_path):
    program = tmp_path / "link-parser"
    program.write_text("#!/bin/sh\ncat > /dev/null\nexit 3\n")
    program.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    command = [sys.executable, str(ROOT / "scripts/parse_sentences.py")]
    result = subprocess.run(command, input=text, capture_output=True, env={**os.environ, "PATH": path}, check=False)
    assert (result.returncode, result.stderr.decode()) == (1, f"error: {message}\n")
