"""The paper in one file computes what the package computes, and the page on the idea quotes it."""

import itertools
import operator
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


def assert_equal_contexts(ours, package, names):
    """Compares the contexts of a mechanism of minimal.py with those of one of memattn that has the same weights.

    `names` maps the name of each weight in the first to its name in the second.
    """
    random = np.random.default_rng(1)
    states, queries = (tf.constant(random.normal(size=shape), tf.float32) for shape in ([B, S, D], [B, T, U]))
    mask = tf.sequence_mask([S, 4], S)

    def contexts():
        return ours.read(queries, ours.memorize(states, mask)), package(queries, states, value_mask=mask)

    contexts()  # makes the weights
    assert len(names) == len(ours.trainable_variables) == len(package.trainable_variables)
    for our_name, name in names.items():
        weight = operator.attrgetter(name)(package)
        weight.assign(random.normal(size=weight.shape))
        operator.attrgetter(our_name)(ours).assign(weight)
    np.testing.assert_allclose(*contexts(), rtol=1e-5, atol=1e-5)


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
    names = {"W_alpha.kernel": "encoder_scores.kernel", "W_beta.kernel": "decoder_scores.kernel"}
    assert_equal_contexts(minimal.MemoryAttention(K, encoder_scoring, decoder_scoring, longest), package, names)


def test_bahdanau_attention_equals_that_of_the_package():
    names = {
        "W_q.kernel": "query_layer.kernel",
        "W_q.bias": "query_layer.bias",
        "W_k.kernel": "key_layer.kernel",
        "v": "v",
    }
    assert_equal_contexts(minimal.BahdanauAttention(7), memattn.BahdanauAttention(units=7), names)


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
