"""Vocabulary selection: a lexicon equals plain EM; a search with a lexicon equals a search over masked logits."""

import collections
import dataclasses
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf
from helpers.marks import slow
from helpers.runs import TINY

from memattn import config as configs
from memattn.config import DecodingConfig
from memattn.data import lexicon
from memattn.data.lexicon import Lexicon
from memattn.data.sentences import Corpus, Sentences
from memattn.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation.evaluate import read_split
from memattn.models.interface import Ensemble
from memattn.runs.trained import build_model, load
from memattn.search.searcher import Searcher, decode, warm_up

V = 32
CONFIG = DecodingConfig(beam_size=3, n_best=3, length_penalty=1.0, jit_compile=False)


def plain_model_1(sentences, rounds):
    """Probabilities {(source, target): p} by the EM of IBM model 1 (Brown et al., 1993), a pair of words at a time."""
    together = {(s, t) for source, target in sentences for s in source for t in target}
    probability = dict.fromkeys(together, 1.0)
    for _ in range(rounds):
        counts, totals = collections.Counter(), collections.Counter()
        for source, target in sentences:
            for t in target:
                explained = sum(probability[s, t] for s in source)
                for s in source:
                    counts[s, t] += probability[s, t] / explained
                    totals[s] += probability[s, t] / explained
        probability = {(s, t): counts[s, t] / totals[s] for s, t in together}
    return probability


@pytest.mark.parametrize(("block", "token_pairs"), [(2, 1 << 24), (100, 1 << 24), (100, 20)])
def test_the_lexicon_holds_the_probabilities_of_ibm_model_1(block, token_pairs, monkeypatch):
    monkeypatch.setattr(lexicon, "_BLOCK", block)
    monkeypatch.setattr(lexicon, "_MOST_TOKEN_PAIRS", token_pairs)
    monkeypatch.setattr(lexicon, "_ROUNDS", 3)
    random = np.random.default_rng(0)
    sentences = [[[*random.integers(4, 12, random.integers(0, 6)), EOS] for _ in range(2)] for _ in range(7)]
    text = Corpus(*(Sentences.from_ids(list(side)) for side in zip(*sentences, strict=True)))
    probabilities = {(s, t): probability for s, t, probability in zip(*lexicon.learn(text, V), strict=True)}
    expected = plain_model_1(sentences, 3)
    assert probabilities.keys() == expected.keys()
    for key, probability in expected.items():
        assert probabilities[key] == pytest.approx(probability, rel=1e-9)


def test_a_lexicon_is_learned_from_long_sentences_in_little_memory(monkeypatch):
    monkeypatch.setattr(lexicon, "_MOST_TOKEN_PAIRS", 50_000)
    monkeypatch.setattr(lexicon, "_ROUNDS", 1)
    sentences = Sentences.from_ids([[4] * 200] * 40)  # 1.6 million pairs of tokens
    tracemalloc.start()
    lexicon.learn(Corpus(sentences, sentences), V)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6


def some_lexicon():
    random = np.random.default_rng(3)
    return Lexicon(np.where(random.random([V, 4]) < 0.7, random.integers(4, V, [V, 4]), PAD).astype(np.int32))


def sources(rows=5, width=6):
    random = np.random.default_rng(4)
    return np.array([[*random.integers(4, V, length), EOS, *[PAD] * (width - length)] for length in range(1, rows + 1)])


def test_the_selection_of_a_source_does_not_depend_on_its_batch():
    translations = some_lexicon()._translations
    batch = np.concatenate([sources(), np.full([1, 7], PAD)])
    ids, allowed = some_lexicon()(batch)
    assert ids[:4].tolist() == [PAD, BOS, EOS, UNK]
    assert len(ids) % (V // 16) == 0
    for row, allowed_in_row in zip(batch, allowed, strict=True):
        expected = {*row, *translations[row].ravel(), EOS, UNK} - {PAD}
        assert set(ids[allowed_in_row]) == expected
        alone, alone_allowed = some_lexicon()(row[None])
        assert set(alone[alone_allowed[0]]) == expected


def models(number, **options):
    tree = configs.apply_changes(
        TINY, {"data.folder": "none", "model.dropout": 0.0, "model.init_scale": 1.0, **options}
    )
    return [build_model(configs.from_dict(tree), V, {"max_source_length": 7}) for _ in range(number)]


def search(model, source, lexicon=None, **options):
    return Searcher(model, dataclasses.replace(CONFIG, **options), lexicon)(source)


@pytest.mark.parametrize(("tie", "coverage"), [("none", 0.5), slow("all", 0.0)])
def test_scores_are_normalized_over_the_selection(tie, coverage):
    """Scores equal those of a search for each source alone, with the logits of all other tokens near minus infinity."""
    (model,) = models(1, **{"model.tie_embeddings": tie})
    assert_normalized_over_the_selection(
        model, [model.output_bias if tie == "all" else model.output_layer.bias], coverage
    )


@pytest.mark.slow
def test_each_model_of_an_ensemble_is_normalized_over_the_selection():
    members = models(2)
    assert_normalized_over_the_selection(Ensemble(members), [member.output_layer.bias for member in members], 0.0)


def assert_normalized_over_the_selection(model, biases, coverage):
    ids, allowed = some_lexicon()(sources())
    hypotheses = search(model, sources(), some_lexicon(), coverage_penalty=coverage)
    plain_search = Searcher(model, dataclasses.replace(CONFIG, coverage_penalty=coverage))  # traced once
    for i, source in enumerate(sources()):
        bias = np.full(V, -1e9, np.float32)
        bias[ids[allowed[i]]] = 0.0
        for weight in biases:
            weight.assign(bias)
        expected = plain_search(source[None])
        np.testing.assert_array_equal(hypotheses.tokens[i : i + 1], expected.tokens)
        np.testing.assert_array_equal(hypotheses.lengths[i : i + 1], expected.lengths)
        np.testing.assert_allclose(hypotheses.scores[i : i + 1], expected.scores, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_each_size_of_a_selection_is_traced_in_warming_up():
    sentences = Sentences.from_ids([row[row != PAD].tolist() for row in np.concatenate([sources(), sources(2)])])
    searcher = Searcher(models(1)[0], dataclasses.replace(CONFIG, batch_size=2), some_lexicon())
    warm_up(searcher, sentences, 2)
    traces = searcher._search.experimental_get_tracing_count()
    assert traces > 1
    decode(searcher, sentences, Vocabulary([f"w{i}" for i in range(V - 4)]), 2)
    assert searcher._search.experimental_get_tracing_count() == traces


def test_a_file_holds_the_most_probable_translations_of_each_token(tmp_path):
    vocabulary = Vocabulary(["a", "b", "c", "d"])
    (tmp_path / "train.source").write_text("a b\na\n\n", encoding="utf-8")
    (tmp_path / "train.target").write_text("c d\nc\nd\n", encoding="utf-8")
    path = lexicon.write(str(tmp_path), vocabulary, 1)
    assert path == str(tmp_path / "lexicon.tsv")
    lines = [line.split("\t") for line in (tmp_path / "lexicon.tsv").read_text(encoding="utf-8").splitlines()]
    assert [line[:2] for line in lines] == [["</s>", "d"], ["a", "c"], ["b", "d"]]
    ids, allowed = lexicon.read(path, vocabulary, 5)(np.array([[4, EOS]]))
    assert [int(i) for i in ids[allowed[0]]] == [EOS, UNK, 4, 6, 7]  # a itself, c, and d of the empty source


@pytest.mark.slow
def test_a_run_decodes_with_a_lexicon(finished, tmp_path):
    path = tmp_path / "lexicon.tsv"
    path.write_text("</s>\t3\t0.9\n</s>\t2\t0.1\n", encoding="utf-8")
    trained = load([str(finished)], [f"decoding.lexicon={path}", "decoding.lexicon_size=1"], None)
    trained.model.output_layer.bias.assign(tf.one_hot(EOS, 8) * -1e9)  # no hypothesis ends early
    hypotheses = evaluation.evaluate(trained, read_split(trained, "valid"), repeats=1).comparison.hypotheses
    sources = (finished.parent / "data" / "valid.source").read_text(encoding="utf-8").splitlines()
    for source, hypothesis in zip(sources, hypotheses, strict=True):
        assert {*hypothesis.split()} & {*source.split(), "3"}
        assert {*hypothesis.split()} <= {*source.split(), "3", "<unk>"}
