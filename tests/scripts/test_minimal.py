"""The paper in one file computes what the package computes, and the page on the idea quotes it."""

import itertools
import re
import runpy

import minimal
import numpy as np
import pytest
import tensorflow as tf
from helpers.repository import ROOT

import memattn

B, T, S, D, U, K = 2, 3, 6, 8, 5, 4
SCORINGS = list(itertools.product(minimal.SCORINGS, repeat=2))


def contexts_and_gradients(contexts_of, weights, states, queries):
    """Returns the contexts, and the gradients of a weighted sum of them by states, queries and weights."""
    with tf.GradientTape() as tape:
        tape.watch([states, queries])
        contexts = contexts_of(states, queries)
        total = tf.reduce_sum(contexts * tf.constant(np.random.default_rng(2).normal(size=[B, T, D]), tf.float32))
    return contexts, *tape.gradient(total, [states, queries, *weights])


def assert_equal_contexts_and_gradients(ours, package, names):
    """Compares a mechanism of minimal.py with one of memattn that has the same weights.

    `names` has a pair for each weight: its name in both mechanisms.
    """
    random = np.random.default_rng(1)
    states, queries = (tf.constant(random.normal(size=shape), tf.float32) for shape in ([B, S, D], [B, T, U]))
    mask = tf.sequence_mask([S, 4], S)

    def our_contexts(states, queries):
        return ours.read(queries, ours.memorize(states, mask))

    def contexts_of_the_package(states, queries):
        return package(queries, states, value_mask=mask)

    our_contexts(states, queries), contexts_of_the_package(states, queries)  # make the weights
    pairs = [[weight_named(layer, name) for layer, name in zip((ours, package), pair, strict=True)] for pair in names]
    for our_weight, weight in pairs:
        weight.assign(random.normal(size=weight.shape))
        our_weight.assign(weight)
    our_weights, weights = zip(*pairs, strict=True)
    assert len(weights) == len(ours.trainable_variables) == len(package.trainable_variables)
    results = contexts_and_gradients(our_contexts, our_weights, states, queries)
    expected = contexts_and_gradients(contexts_of_the_package, weights, states, queries)
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-5)


def weight_named(layer, name):
    """Returns a weight, such as `query_layer.kernel`, of a layer."""
    for part in name.split("."):
        layer = getattr(layer, part)
    return layer


@pytest.mark.parametrize("encoder_scoring, decoder_scoring", SCORINGS)
@pytest.mark.parametrize("longest", [None, 5], ids=["without_encodings", "with_encodings"])
def test_memory_attention_equals_that_of_the_package(encoder_scoring, decoder_scoring, longest):
    package = memattn.MemoryAttention(
        num_slots=K,
        encoder_scoring=encoder_scoring,
        decoder_scoring=decoder_scoring,
        position_encoding=longest is not None,
        max_source_length=longest,  # shorter than the longest source here
    )
    assert_equal_contexts_and_gradients(
        minimal.MemoryAttention(K, encoder_scoring, decoder_scoring, longest),
        package,
        [("W_alpha.kernel", "encoder_scores.kernel"), ("W_beta.kernel", "decoder_scores.kernel")],
    )


def test_bahdanau_attention_equals_that_of_the_package():
    names = [
        ("W_q.kernel", "query_layer.kernel"),
        ("W_q.bias", "query_layer.bias"),
        ("W_k.kernel", "key_layer.kernel"),
        ("v", "v"),
    ]
    assert_equal_contexts_and_gradients(minimal.BahdanauAttention(7), memattn.BahdanauAttention(units=7), names)


def test_greedy_decoding_writes_the_most_probable_tokens_of_training():
    model = minimal.Model(minimal.MemoryAttention(K))
    source = minimal.draw_sequences(3, 4, np.random.default_rng(1))
    written = minimal.greedy_decode(model, source, 5)
    tokens = tf.pad(written[:, :-1], [[0, 0], [1, 0]], constant_values=minimal.BOS)
    logits, _ = model.decode(tokens, None, model.encode(source))
    np.testing.assert_array_equal(tf.argmax(logits, -1), written)


def test_texts_end_before_the_end_of_a_sequence():
    sequences = tf.constant([[12, 20, minimal.EOS, minimal.PAD], [minimal.EOS, 3, 3, 3], [3, 22, 3, 3]])
    assert minimal.texts(sequences) == ["12 20", "", "3 22 3 3"]


def test_the_script_trains_and_decodes(monkeypatch, capsys):
    options = ["--steps", "2", "--max_length", "3", "--position_encodings", "--slots", "2"]
    monkeypatch.setattr("sys.argv", ["minimal.py", *options])
    runpy.run_path(minimal.__file__, run_name="__main__")
    printed = capsys.readouterr().out
    assert re.search(r"^step 2, \d+ s: loss \d\.\d+, validation BLEU \d+\.\d$", printed, flags=re.MULTILINE)
    assert re.search(r"^memory: BLEU \d+\.\d on 1,000 new sequences", printed, flags=re.MULTILINE)
    assert printed.count("a decoder step with ") == 3


def test_the_page_on_memory_attention_quotes_lines_of_the_script():
    page = (ROOT / "docs/concepts/memory_attention.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    script = (ROOT / "scripts/minimal.py").read_text(encoding="utf-8")
    assert blocks
    for block in blocks:
        assert block in re.sub("^        ", "", script, flags=re.MULTILINE)
