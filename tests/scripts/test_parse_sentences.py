"""The output of link-grammar's parser becomes trees that can be read."""

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
