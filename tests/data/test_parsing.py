"""Trees are read as EVALB's standard preparation has them, made from captions, and prepared for training."""

import gzip
import json
import re

import parsed_captions
import pytest
from helpers.files import contents, lines_of
from helpers.runs import NO_STRATEGY, evaluate

from memattn.data import corpus, trees
from memattn.data.preparation import parsing
from memattn.errors import ConfigError, DataError, RunError
from memattn.training.trainer import train

MRG = """
( (S
    (NP-SBJ-1 (NNP Ms.) (NNP Haag) )
    (VP (VBZ plays)
      (NP (NNP Elianti) ))
    (. .) ))
( (SQ (VBZ Is)
    (NP-SBJ (-NONE- *T*-1) )
    (PRN (, ,) (`` ``)
      (S=2 (-LRB- -LRB-) (NP|ADVP (CD 1\\/2)) (S (NP (-NONE- *)) (VP (-NONE- ?))))
      ('' '') )
    (: --) (. ?) ))
"""


def file(folder, text, name="wsj.mrg"):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


def test_a_treebank_loses_traces_function_tags_and_parts_of_speech(tmp_path):
    first, second = trees.read(file(tmp_path, MRG, "wsj.mrg.gz"))
    assert first.words == ["Ms.", "Haag", "plays", "Elianti", "."]
    assert " ".join(first.target) == "(S (NP XX XX )NP (VP XX (NP XX )NP )VP . )S"
    assert second.words == ["Is", ",", "``", "-LRB-", "1\\/2", "''", "--", "?"]
    assert " ".join(second.target) == "(SQ XX (PRN , `` (S XX (NP XX )NP )S '' )PRN : . )SQ"


def test_one_line_trees_may_share_a_line_and_be_labelled_top(tmp_path):
    path = file(tmp_path, "(TOP (NP (DT a) (NN\u00a0 b\u00a0c)))(S1 (S (VB Go)))\r\n\n( (UH Yes))\n")
    assert [" ".join(parse.target) for parse in trees.read(path)] == ["(NP XX XX )NP", "(S XX )S", "XX"]
    assert trees.read(path)[0].words == ["a", "b\u00a0c"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "bad.mrg: has no tree"),
        ("(S (NN a))\n(S (NN b)\n\n", "bad.mrg:2: the tree that begins here lacks closing brackets: 1"),
        ("(S (NN a))\n(S (NN b)))\n", "bad.mrg:2: '\\)' is outside of all brackets"),
        ("(S (NN a))\nand so on\n", "bad.mrg:2: 'and' is outside of all brackets"),
        ("(S (NN a)\n b)", r"bad.mrg:1: the word 'b' needs its own bracket: \(XX b\)"),
        ("(S (NN a)\n (NP))", r"bad.mrg:2: the word 'NP' needs its own bracket: \(XX NP\)"),
        ("(S (NN a))\n( (S (-NONE- *)))", "bad.mrg:2: a tree without words"),
    ],
)
def test_a_bad_tree_is_named_with_its_line(tmp_path, text, problem):
    with pytest.raises(DataError, match=problem):
        trees.read(file(tmp_path, text, "bad.mrg"))


def test_spans_leave_out_punctuation_and_take_prt_for_advp():
    target = "(S `` (NP XX , XX )NP (PRN , )PRN (VP XX (PRT XX )PRT (ADVP XX )ADVP )VP . )S"
    brackets = [("S", 0, 5), ("NP", 0, 2), ("VP", 2, 5), ("ADVP", 3, 4), ("ADVP", 4, 5)]
    assert trees.spans(target) == (dict.fromkeys(brackets, 1), 5)
    assert trees.spans("(NP (NP XX )NP )NP") == ({("NP", 0, 1): 2}, 1)  # equal brackets are counted separately


@pytest.mark.parametrize(
    "target",
    ["", "(NP XX", "(NP XX )NP )S", ")NP XX (NP", "(NP XX )VP", "(S (NP XX )S )NP", "(NP )NP", "3 5 7", "( XX )"],
)
def test_tokens_that_are_no_tree_have_no_spans(target):
    assert trees.spans(target) is None


def test_targets_are_trees_if_one_has_a_bracket_and_none_is_anything_else():
    assert trees.are_trees(["XX .", "(NP XX )NP"])  # "(TOP (UH Yes) (. .))" has no other bracket
    assert not trees.are_trees([", . :", "."])  # text of which only the punctuation is left
    assert not trees.are_trees(["(NP XX )NP", "a b"])


def test_marks_of_the_parser_are_removed_and_words_get_brackets():
    output = (
        "width set to 100000\n\n"
        "(ADJP (S (VP (ADJP a little.a girl.n-u climbing.g) {into} the Metro{!} {,} {Foo{!}.n} U.S. 2.50) .))\n\n"
        "(SBAR while.#while (S ! (NP it.j-n)))\nBye.\n"
    )
    assert list(parsed_captions.trees(output)) == [
        "(ADJP (S (VP (ADJP (XX a) (XX little) (XX girl) (XX climbing)) (XX into) (XX the) (XX Metro) (, ,) (XX Foo) "
        "(XX U.S.) (XX 2.50)) (. .)))",
        "(SBAR (XX while) (S (. !) (NP (XX it))))",
    ]


# A program that ends as link-parser does, and takes a line that begins with "!" or "%" for a command or a comment.
PARSER = r"""#!/bin/sh
LC_ALL=C exec awk '/^!exit/ || length > 2045 {exit} /^[!%]/ {next} /colorless/ {next} {print "(S" $0 ")"}'
"""


def test_a_missing_or_failing_parser_is_named(program, tmp_path, monkeypatch):
    program("link-parser", "#!/bin/sh\ncat > /dev/null\nexit 3\n")
    with pytest.raises(RunError, match="link-parser: ended with status 3"):
        parsed_captions.parse(["a dog"])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="link-parser is missing"):
        parsed_captions.parse(["a dog"])


def test_every_line_is_a_sentence_to_the_parser_and_sentences_without_tree_are_counted(program):
    program("link-parser", PARSER)
    with pytest.warns(UserWarning, match="2 of 10 sentences have no tree"):
        commands = ["!exit", "(!exit)", " !exit", "!help", "% a", "%n % n"]
        parsed = parsed_captions.parse(["a dog", *commands, "", "a " * 2_000, "colorless ideas", "50% of {a} cat"])
    words = ["".join(re.findall(r"(?<=XX )[^)]+|\) ", tree)) for tree in parsed]
    expected = ["a dog", "!exit", "!exit", "!exit", "!help", "percent a", "percent n percent n", "50 percent of a cat"]
    assert [line.replace(")", "") for line in words] == expected


@pytest.fixture
def splits(tmp_path):
    """Files of a small treebank, whose training split is in two files."""
    (tmp_path / "wsj").mkdir()
    (tmp_path / "wsj" / "1.mrg").write_text("( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks)) (. .)))\n")
    (tmp_path / "wsj" / "2.mrg").write_text("( (S (NP (DT the) (NN cat)) (VP (VBZ naps)) (. .)))\n( (FRAG (UH <unk>)))")
    (tmp_path / "valid").write_text("(S (NP (DT the) (NN dog)) (VP (VBZ naps)))")
    return {"train": [str(tmp_path / "wsj" / "*.mrg")], "valid": [str(tmp_path / "valid")]}


def test_a_prepared_treebank_holds_sentences_and_targets(splits, tmp_path):
    folder = str(tmp_path / "out")
    counts = parsing.prepare(splits, 2, folder)
    assert lines_of(f"{folder}/train.source") == ["the dog barks .", "the cat naps .", "<unk>"]
    target = "(S (NP XX XX )NP (VP XX )VP . )S"
    assert lines_of(f"{folder}/train.target") == [target, target, "(FRAG XX )FRAG"]
    vocabulary = corpus.read_vocabulary(folder)
    assert sorted(vocabulary.tokens[4:]) == sorted([*set(target.split()), "(FRAG", ")FRAG", "the"])
    assert counts["train"] == {"pairs": 3, "source_tokens": 9, "target_tokens": 23}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["counts"] == counts
    assert [len(paths) for paths in manifest["sources"].values()] == [2, 1]
    pairs = corpus.read_corpus(folder, "valid", vocabulary)
    assert vocabulary.decode(pairs.source[0]) == ["the", "<unk>", "<unk>"]
    assert " ".join(vocabulary.decode(pairs.target[0])) == "(S (NP XX XX )NP (VP XX )VP )S"


def test_a_bad_tree_in_any_split_leaves_nothing_behind(splits, tmp_path):
    (tmp_path / "valid").write_text("(S (NP (DT the)\n")
    before = contents(tmp_path)
    with pytest.raises(DataError, match="valid:1: the tree that begins here lacks closing brackets: 2"):
        parsing.prepare(splits, 2, str(tmp_path / "out"))
    assert contents(tmp_path) == before


def test_a_missing_file_is_refused(splits, tmp_path):
    with pytest.raises(ConfigError, match="ptb/.*: no such file"):
        parsing.prepare({**splits, "test": ["ptb/*.mrg"]}, 2, str(tmp_path / "out"))


@pytest.mark.slow
def test_the_command_prepares_trees_and_says_how_to_train(splits, tmp_path, command):
    flags = ["parsing", *(f"--{split}={','.join(paths)}" for split, paths in splits.items())]
    result = command(tmp_path, "memattn.prepare", *flags, "--folder=out")
    assert result.stderr == ""
    assert "out: 3 training trees, 9 words, 23 target tokens\n" in result.stdout
    assert "memattn-train --config parsing/small --set data.folder=out" in result.stdout


@pytest.mark.slow
def test_a_run_on_trees_is_chosen_by_f1_and_scored_by_brackets(splits, tiny_config, tmp_path):
    parsing.prepare({**splits, "test": splits["train"]}, 1, str(tmp_path / "trees"))
    changes = {"data.copy": None, "data.folder": str(tmp_path / "trees"), "training.metric": "bracketing_f1"}
    assert train(tiny_config(changes), str(tmp_path / "run"), NO_STRATEGY) == 0
    assert "bracketing_f1" in lines_of(tmp_path / "run" / "validation.csv")[0].split(",")
    result = evaluate(tmp_path / "run", split="test")
    assert {"bracketing_f1", "bracketing_precision", "bracketing_recall", "malformed_trees"} <= result.keys()
    assert not {"sacrebleu", "chrf"} & result.keys()
