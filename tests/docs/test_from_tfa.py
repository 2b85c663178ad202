"""The code of docs/from_tfa.md runs, and with tensorflow-addons its old and new halves agree."""

import ast
import re
import warnings

import numpy as np
import pytest
import tensorflow as tf
from helpers.repository import ROOT

from memattn.attention import MECHANISMS

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/from_tfa.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n# (in both|tensorflow-addons|memattn)\n(.*?)```", PAGE, flags=re.DOTALL)
D, U, END = 8, 6, 2  # as on the page
SAVED = {  # what the old halves save, and its shapes
    "bahdanau": {"query": [U, U], "key": [D, U], "v": [U]},
    "normalized": {"query": [U, U], "key": [D, U], "v": [U], "g": [], "b": [U]},
    "luong": {"key": [D, U], "scale": []},
}


def assigned(code):
    """The names that a block assigns outside of its functions."""
    names = (node for statement in ast.parse(code).body for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def arrays(namespace, names):
    """The tensors among these names, as arrays."""
    return {name: namespace[name].numpy() for name in names if tf.is_tensor(namespace.get(name))}


def hypotheses(tokens, values):
    """Words of each hypothesis of tokens [B, k, L], with its value of [B, k]."""
    rows = zip(np.array(tokens).tolist(), np.array(values).tolist(), strict=True)
    return [
        {tuple(words[: words.index(END)] if END in words else words): value for words, value in zip(*row, strict=True)}
        for row in rows
    ]


def assert_found_the_same(old, new, options):
    """A hypothesis that both find has one score, when each score is made of what the search returned."""
    final, found = old["final"], new["found"]
    theirs, ours = final.log_probs, found.scores
    if "length_penalty_weight" in options:
        ours *= ((5 + tf.cast(found.lengths, tf.float32)) / 6) ** 0.6
    if "coverage_penalty_weight" in options:
        covered = final.accumulated_attention_probs
        theirs += 0.2 * tf.reduce_sum(tf.math.log(tf.minimum(tf.where(covered == 0, 1.0, covered), 1.0)), -1)
    theirs = hypotheses(tf.transpose(old["outputs"].predicted_ids, [0, 2, 1]), theirs)
    ours = hypotheses(found.tokens, ours)
    for one, other in zip(theirs, ours, strict=True):
        both = one.keys() & other.keys()
        assert len(both) >= len(one) / 2
        np.testing.assert_allclose([one[words] for words in both], [other[words] for words in both], rtol=1e-4)


@pytest.mark.skipif(hasattr(tf.keras.layers, "AbstractRNNCell"), reason="of Keras 3")
def test_the_page_quotes_the_real_error():
    with pytest.raises(AttributeError) as raised:
        tf.keras.layers.AbstractRNNCell  # noqa: B018
    assert f"AttributeError: {raised.value}\n" in PAGE


def test_every_block_is_of_the_old_or_of_the_new():
    assert len(BLOCKS) == PAGE.count("```python") > 20


def test_the_new_halves_run_without_tensorflow_addons(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(2)
    for name, shapes in SAVED.items():
        np.savez(f"{name}.npz", **{key: random.normal(size=shape) for key, shape in shapes.items()})
    namespace = {}
    for side, code in BLOCKS:
        if side != "tensorflow-addons":
            exec(code, namespace)
            for name, value in arrays(namespace, assigned(code)).items():
                assert np.isfinite(value).all(), name


@pytest.mark.skipif("tfa_bahdanau" not in MECHANISMS, reason="needs the extra addons: make test-addons")
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_old_and_new_halves_compute_the_same(tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)
    tf.keras.utils.set_random_seed(seed)
    both, old, new, compared = {}, {}, {}, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tensorflow-addons' of its own end
        for side, code in BLOCKS:
            exec(code, {"in both": both, "tensorflow-addons": old, "memattn": new}[side])
            if side == "in both":  # the same objects, and so the same weights
                old.update(both)
                new.update(both)
            elif side == "tensorflow-addons":
                names = assigned(code)
            elif options := re.findall(r"(?:length|coverage)_penalty_weight", code):
                assert_found_the_same(old, new, options)
                compared += options
            else:
                names_of_both = names & assigned(code) - {"_"}
                theirs, ours = arrays(old, names_of_both), arrays(new, names_of_both)
                assert ours and theirs.keys() == ours.keys(), code
                for name, values in ours.items():
                    np.testing.assert_allclose(values, theirs[name], rtol=1e-4, atol=1e-5, err_msg=f"{name} of {code}")
                compared += ours
    for name in ("context", "alignments", "logits", "tokens", "scores", "loss", "coverage_penalty_weight"):
        assert name in compared
