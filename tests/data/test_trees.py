"""Trees are read as EVALB's standard preparation has them, and turned into targets and spans; bad trees are named."""

import gzip

import pytest

from memattn.data import trees
from memattn.errors import DataError

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
