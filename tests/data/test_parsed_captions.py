"""The output of link-grammar's parser becomes trees that can be read."""

import os
import re

import pytest
from parsed_captions import parse, trees

from memattn.errors import ConfigError, RunError


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


@pytest.fixture
def use_parser(tmp_path, monkeypatch):
    """use_parser(program) puts the text of a program in place of link-parser."""

    def use(program):
        (tmp_path / "link-parser").write_text(program)
        (tmp_path / "link-parser").chmod(0o755)
        monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))

    return use


def test_a_missing_or_failing_parser_is_named(use_parser, tmp_path, monkeypatch):
    use_parser("#!/bin/sh\ncat > /dev/null\nexit 3\n")
    with pytest.raises(RunError, match="link-parser: ended with status 3"):
        parse(["a dog"])
    (tmp_path / "link-parser").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="link-parser is missing"):
        parse(["a dog"])


def test_every_line_is_a_sentence_to_the_parser_and_sentences_without_tree_are_counted(use_parser):
    use_parser(PARSER)
    with pytest.warns(UserWarning, match="2 of 10 sentences have no tree"):
        commands = ["!exit", "(!exit)", " !exit", "!help", "% a", "%n % n"]
        parsed = parse(["a dog", *commands, "", "a " * 2_000, "colorless ideas", "50% of {a} cat"])
    words = ["".join(re.findall(r"(?<=XX )[^)]+|\) ", tree)) for tree in parsed]
    expected = ["a dog", "!exit", "!exit", "!exit", "!help", "percent a", "percent n percent n", "50 percent of a cat"]
    assert [line.replace(")", "") for line in words] == expected
