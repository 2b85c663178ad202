"""The output of link-grammar's parser becomes trees that can be read."""

import os
import re
import shutil
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


# A program that ends as link-parser does, and takes a line that begins with "!" or "%" for a command or a comment.
PARSER = r"""#!/bin/sh
LC_ALL=C exec awk '/^!exit/ || length > 2045 {exit} /^[!%]/ {next} /colorless/ {next} {print "(S" $0 ")"}'
"""


def parse(folder, text, parser):
    """Runs the script, with the text of a program in place of link-parser unless it is None."""
    environment = dict(os.environ)
    if parser is not None:
        (folder / "link-parser").write_text(parser)
        (folder / "link-parser").chmod(0o755)
        environment["PATH"] = os.pathsep.join([str(folder), os.environ["PATH"]])
    command = [sys.executable, str(ROOT / "scripts/parse_sentences.py")]
    return subprocess.run(command, input=text, capture_output=True, env=environment, check=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"a dog\n\xe9t\xe9\n", "standard input, line 2: not UTF-8"), (b"a dog\n", "link-parser: ended with status 3")],
)
def test_bad_input_and_a_failing_parser_are_named_in_one_line(text, message, tmp_path):
    result = parse(tmp_path, text, "#!/bin/sh\ncat > /dev/null\nexit 3\n")
    assert (result.returncode, result.stderr.decode()) == (1, f"error: {message}\n")


COMMANDS = ["!exit", "(!exit)", " !exit", "!help", "% a", "%n % n"]


def test_every_line_is_a_sentence_to_the_parser_and_sentences_without_tree_are_counted(tmp_path):
    lines = ["a dog", *COMMANDS, "", "a " * 2_000, "colorless ideas", "50% of {a} cat"]
    result = parse(tmp_path, "\n".join(lines).encode(), PARSER)
    words = ["".join(re.findall(r"(?<=XX )[^)]+|\) ", line)) for line in result.stdout.decode().splitlines()]
    expected = ["a dog", "!exit", "!exit", "!exit", "!help", "percent a", "percent n percent n", "50 percent of a cat"]
    assert [line.replace(")", "") for line in words] == expected
    assert result.returncode == 0
    assert result.stderr.decode() == "warning: 2 of 10 sentences have no tree\n"


@pytest.mark.skipif(shutil.which("link-parser") is None, reason="link-grammar is not installed")
def test_link_grammars_parser_takes_no_line_for_a_command(tmp_path):
    lines = ["The dog runs.", *COMMANDS, "word " * 500, "The cat runs."]
    result = parse(tmp_path, "\n".join(lines).encode(), None)
    trees = result.stdout.decode().splitlines()
    assert trees[0] == "(S (NP (XX the) (XX dog)) (VP (XX runs)) (. .))"
    assert trees[-1] == "(S (NP (XX the) (XX cat)) (VP (XX runs)) (. .))"
    assert f"warning: {len(lines) - len(trees)} of {len(lines)} sentences have no tree" in result.stderr.decode()
    assert result.returncode == 0
