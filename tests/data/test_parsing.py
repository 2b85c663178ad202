"""Trees become a corpus of sentences and brackets to train on; bad files are refused, and nothing is written."""

import json

import pytest
from helpers.files import contents, lines_of
from helpers.runs import NO_STRATEGY, evaluate

from memattn.data import corpus
from memattn.data.preparation import parsing
from memattn.errors import ConfigError, DataError
from memattn.training.trainer import train


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
    status, stdout, stderr = command(tmp_path, "memattn.prepare", *flags, "--folder=out")
    assert (status, stderr) == (0, "")
    assert "out: 3 training trees, 9 words, 23 target tokens\n" in stdout
    assert "memattn-train --config parsing/small --set data.folder=out" in stdout
    status, _, stderr = command(tmp_path, "memattn.prepare", *flags, "--test=", "--folder=x")
    assert (status, stderr.startswith("error: --test: no name")) == (2, True)


@pytest.mark.slow
def test_a_run_on_trees_is_chosen_by_f1_and_scored_by_brackets(splits, tiny_config, tmp_path):
    parsing.prepare({**splits, "test": splits["train"]}, 1, str(tmp_path / "trees"))
    changes = {"data.copy": None, "data.folder": str(tmp_path / "trees"), "training.metric": "bracketing_f1"}
    assert train(tiny_config(changes), str(tmp_path / "run"), NO_STRATEGY) == 0
    assert "bracketing_f1" in lines_of(tmp_path / "run" / "validation.csv")[0].split(",")
    result = evaluate(tmp_path / "run", split="test")
    assert {"bracketing_f1", "bracketing_precision", "bracketing_recall", "malformed_trees"} <= result.keys()
    assert not {"sacrebleu", "chrf"} & result.keys()
