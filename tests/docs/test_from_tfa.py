"""The code of the page on tensorflow-addons runs; both libraries compute the same where the page says so."""

import ast
import re
import warnings

import numpy as np
import pytest
import tensorflow as tf
from helpers.equations import LENGTHS, QUERIES, STATES, B, S, mask, read
from helpers.repository import ROOT

from memattn.attention import LuongAttention, MonotonicAttention

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/tutorials/from_tensorflow_addons.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n# (in both|tensorflow-addons|memattn)\n(.*?)```", PAGE, flags=re.DOTALL)
D, U, END = 8, 6, 2  # as on the page
SAVED_SHAPES = {"query": [U, U], "key": [D, U], "v": [U]}  # of what the code for tensorflow-addons saves


def assigned(code):
    """Returns the names that a block assigns."""
    names = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def arrays(namespace, names):
    """Returns the values of those names that are tensors, as arrays."""
    return {name: namespace[name].numpy() for name in names if tf.is_tensor(namespace.get(name))}


def hypotheses(tokens, values):
    """Returns a mapping for each source from the words of a hypothesis to its value.

    Args:
      tokens: [B, k, L].
      values: [B, k].
    """
    by_source = []
    for rows, values_of_source in zip(np.array(tokens).tolist(), np.array(values).tolist(), strict=True):
        words = [tuple(row[: row.index(END)] if END in row else row) for row in rows]
        by_source.append(dict(zip(words, values_of_source, strict=True)))
    return by_source


def assert_equal_scores(old, new):
    """Asserts that hypotheses which both searches find have equal scores, and that these are at least half of all.

    tensorflow-addons returns log-probabilities, memattn scores with both penalties.
    """
    state, tokens = old["final"], tf.transpose(old["outputs"].predicted_ids, [0, 2, 1])
    covered = state.accumulated_attention_probs
    covered = tf.minimum(tf.where(covered == 0, 1.0, covered), 1.0)
    coverage = hypotheses(tokens, 0.2 * tf.reduce_sum(tf.math.log(covered), -1))
    log_probabilities = hypotheses(tokens, state.log_probs)
    scores = hypotheses(new["found"].tokens, new["found"].scores)
    for old_of_source, coverage_of_source, new_of_source in zip(log_probabilities, coverage, scores, strict=True):
        common = old_of_source.keys() & new_of_source.keys()
        assert len(common) >= len(old_of_source) / 2
        for words in common:
            expected = old_of_source[words] / ((5 + len(words)) / 6) ** 0.6 + coverage_of_source[words]
            np.testing.assert_allclose(new_of_source[words], expected, rtol=1e-4)


@pytest.mark.skipif(hasattr(tf.keras.layers, "AbstractRNNCell"), reason="of Keras 3")
def test_the_page_quotes_the_real_error():
    with pytest.raises(AttributeError) as raised:
        tf.keras.layers.AbstractRNNCell  # noqa: B018
    assert f"AttributeError: {raised.value}\n" in PAGE


def test_every_block_names_the_library_that_it_is_for():
    assert len(BLOCKS) == PAGE.count("```python") > 10


def test_the_code_for_memattn_runs_without_tensorflow_addons(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(2)
    np.savez("bahdanau.npz", **{key: random.normal(size=shape) for key, shape in SAVED_SHAPES.items()})
    namespace = {}
    for side, code in BLOCKS:
        if side != "tensorflow-addons":
            exec(code, namespace)
            for name, value in arrays(namespace, assigned(code)).items():
                assert np.isfinite(value).all(), name


@pytest.fixture
def tfa():
    """tensorflow-addons."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of its end of life
        yield pytest.importorskip("tensorflow_addons", reason="needs the extra addons: make test-addons")


@pytest.mark.usefixtures("tfa")
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_the_code_for_tensorflow_addons_and_for_memattn_computes_the_same(tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)
    tf.keras.utils.set_random_seed(seed)
    shared, old, new, compared = {}, {}, {}, []
    for side, code in BLOCKS:
        exec(code, {"in both": shared, "tensorflow-addons": old, "memattn": new}[side])
        if side == "in both":  # the same objects, and so the same weights
            old.update(shared)
            new.update(shared)
        elif side == "tensorflow-addons":
            old_names = assigned(code)
        elif "penalties" in code:
            assert_equal_scores(old, new)
            compared.append("penalties")
        else:
            common_names = old_names & assigned(code) - {"_"}
            old_arrays, new_arrays = arrays(old, common_names), arrays(new, common_names)
            assert new_arrays and old_arrays.keys() == new_arrays.keys(), code
            for name, values in new_arrays.items():
                expected = old_arrays[name]
                np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5, err_msg=f"{name} of {code}")
            compared += new_arrays
    for name in ("context", "alignments", "logits", "tokens", "scores", "penalties"):
        assert name in compared


def test_luong_attention_equals_that_of_tensorflow_addons(tfa):
    ours, theirs = LuongAttention(units=5, scale=0.3), tfa.seq2seq.LuongAttention(5, scale=True)
    theirs.setup_memory(tf.constant(STATES), memory_sequence_length=LENGTHS)
    theirs([tf.constant(QUERIES[:, 0]), tf.zeros([B, S])])  # makes the weights
    theirs.scale_weight.assign(0.3)
    expected = [theirs([tf.constant(query), tf.zeros([B, S])])[0] for query in np.swapaxes(QUERIES, 0, 1)]
    read(ours)  # makes the weights
    ours.key_layer.kernel.assign(theirs.memory_layer.kernel)
    np.testing.assert_allclose(read(ours)[0], np.stack(expected, 1), atol=1e-5)


def test_monotonic_attention_equals_that_of_tensorflow_addons(tfa):
    states, query, before = tf.constant(STATES), tf.constant(QUERIES[:, 0]), tf.one_hot([0] * B, S)
    theirs = tfa.seq2seq.BahdanauMonotonicAttention(
        5, memory=states, memory_sequence_length=LENGTHS, normalize=True, sigmoid_noise=0.0, mode="recursive"
    )
    theirs([query, before])  # makes the weights
    ours = MonotonicAttention(units=5, test_mode="soft")
    ours.build(query[:, None].shape, states.shape)
    energy = ours.stop_energy
    energy.query_layer.kernel.assign(theirs.query_layer.kernel)
    energy.key_layer.kernel.assign(theirs.memory_layer.kernel)
    energy.v.assign(theirs.attention_v)
    energy.g.assign(theirs.attention_g)
    energy.r.assign(theirs.attention_score_bias)
    weights, _ = ours.score(query[:, None], ours.memorize(states, tf.constant(mask())), before[:, None])
    np.testing.assert_allclose(weights[:, 0], theirs([query, before])[0], atol=1e-5)
