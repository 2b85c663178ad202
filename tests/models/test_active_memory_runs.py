"""Active memory in training, search and commands."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from helpers.models import padded
from helpers.neural_gpu import SOURCE, M, V, make_model
from helpers.runs import NO_STRATEGY, evaluate

from memattn.config import DecodingConfig
from memattn.data.vocabulary import BOS, EOS
from memattn.errors import ConfigError
from memattn.models.neural_gpu import KINDS
from memattn.runs.run import Run
from memattn.runs.trained import load
from memattn.search.searcher import Searcher, best_memory_length
from memattn.search.translation import Hypotheses
from memattn.serving import saved_model
from memattn.training.trainer import train
from memattn.training.validation import Validation

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_keeps_the_most_probable_of_all_lengths(kind):
    model, sources = make_model(kind), padded([SOURCE, [5, EOS], [EOS]], 5)
    config = DecodingConfig(beam_size=V, n_best=2, jit_compile=False)
    hypotheses = Searcher(model, config)(sources.numpy())
    for row, source in enumerate([SOURCE, [5, EOS], [EOS]]):
        best = -np.inf
        for length in range(len(source), 2 * len(source) + 1):
            encoded = model.encode(tf.constant([source]))
            encoded = encoded._replace(
                embedded=tf.pad(encoded.embedded, [[0, 0], [0, length - len(source)], [0, 0]]),
                lengths=tf.constant([length]),
            )
            best = max(best, best_score(model, encoded, length))
        assert hypotheses.scores[row, 0] == pytest.approx(best, abs=1e-4)
        assert hypotheses.lengths[row, 0] < 2 * len(source)


def best_score(model, encoded, length):
    """The score of the best finished hypothesis, by a plain beam search with a beam of V."""
    decoding, state = model.start(encoded, V, model.token_table())
    beam, finished_scores = [(0.0, BOS, 0)], []  # score, last token, and index in the state
    for _ in range(length):
        tokens = [token for _, token, _ in beam] + [EOS] * (V - len(beam))
        logits, _, state = model.step(tf.constant([tokens]), state, decoding)
        candidates = [
            (score + log_probability, token, index)
            for index, ((score, *_), row) in enumerate(zip(beam, tf.nn.log_softmax(logits)[0].numpy(), strict=False))
            for token, log_probability in enumerate(row)
        ]
        best = sorted(candidates, reverse=True)[:V]
        finished_scores += [score for score, token, _ in best if token == EOS]
        beam = [candidate for candidate in best if candidate[1] != EOS]
        indices = [index for *_, index in beam] + [0] * (V - len(beam))
        state = tf.nest.map_structure(lambda part, indices=indices: tf.gather(part, indices, axis=1), state)
        beam = [(score, token, index) for index, (score, token, _) in enumerate(beam)]
    return max(finished_scores, default=-np.inf)


def test_a_memory_ratio_sets_a_single_length_that_no_hypothesis_exceeds():
    model, sources = make_model("extended"), padded([SOURCE, [5, EOS], []], 5)
    (length,) = model.memory_lengths(model.encode(sources), 1.5)
    assert length.max_steps.numpy().tolist() == [6, 3, 0]
    assert length.encoded.embedded.shape == (3, 8, M)
    hypotheses = Searcher(model, DecodingConfig(beam_size=2, memory_ratio=1.0, jit_compile=False))(sources.numpy())
    assert (hypotheses.lengths[:2].max(1) <= [4, 2]).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("intercept", "slope", "expected"),
    [(1.5, 1.25, [7, 4, 0]), (-1.0, 0.5, [4, 2, 0])],  # 1.5 + 1.25 * 4 = 6.5; there is room for the source
)
def test_an_estimate_sets_a_single_length_by_that_of_the_source(kind, intercept, slope, expected):
    model = make_model(kind, length_regression=(intercept, slope))
    copy = type(model).from_config(json.loads(json.dumps(model.get_config())))
    sources = padded([SOURCE, [5, EOS], []], 5)
    for each in (model, copy):
        (length,) = each.memory_lengths(each.encode(sources), "estimate")
        assert length.max_steps.numpy().tolist() == expected
    unknown = make_model(kind)
    with pytest.raises(ValueError, match="no estimate: length_regression is not set"):
        list(unknown.memory_lengths(unknown.encode(sources), "estimate"))


def test_lengths_of_a_memory_are_estimated_from_pairs_and_in_validation_those_of_the_longest(tiny_config, tmp_path):
    task = {"name": "duplicate", "max_length": 4, "num_symbols": 3, "train_examples": 30, "valid_examples": 40}
    changes = {"data.copy": None, "data.task": task, "data.num_buckets": 1, "training.max_steps": 1}
    config = tiny_config(with_kind("extended", **changes, **{"decoding.memory_ratio": "estimate"}))
    run = str(tmp_path / "run")
    assert train(config, run, NO_STRATEGY) == 0
    assert train(config, run, NO_STRATEGY) == 0  # resumes
    trained = load([run], [], None)
    line = trained.model.length_regression
    assert line == pytest.approx((-1.0, 2.0))  # S symbols and the end become 2 S and the end
    assert evaluate(run)["config"]["decoding"]["memory_ratio"] == "estimate"
    without = dataclasses.replace(config, decoding=dataclasses.replace(config.decoding, memory_ratio=None))
    validation = Validation(without, trained.model, trained.vocabulary, trained.tokenizer)
    # The longest target is twice 4 tokens and the end, its source 4 tokens and the end.
    assert validation._searcher.config.memory_ratio == pytest.approx(9 / 5, abs=0.01)


def test_cut_hypotheses_count_only_where_all_are_cut():
    def hypotheses(lengths, scores):
        tokens = tf.repeat(tf.constant(lengths)[:, :, None], 3, 2)  # tokens equal their length, to recognize them
        return Hypotheses(tokens, tf.constant(lengths), tf.constant(scores))

    # Two hypotheses of three sources each; of the first source one is cut, of the second both, of the third none.
    lengths = [
        hypotheses([[2], [3], [1]], [[-2.0], [-9.0], [-1.0]]),
        hypotheses([[3], [4], [2]], [[-1.0], [-2.0], [-0.5]]),
    ]
    kept = best_memory_length(lengths, [tf.constant([3, 3, 3]), tf.constant([3, 4, 3])])
    assert kept.scores.numpy().tolist() == [[-2.0], [-2.0], [-0.5]]
    assert kept.tokens.numpy()[:, 0, 0].tolist() == [2, 4, 2]
    without_any = hypotheses([[0], [0], [0]], [[-np.inf]] * 3)  # of length 0, as a search returns where logits are NaN
    kept = best_memory_length([without_any, lengths[1]], [tf.constant([3, 3, 3]), tf.constant([3, 4, 3])])
    assert kept.scores.numpy().tolist() == [[-1.0], [-2.0], [-0.5]]


def with_kind(kind, **changes):
    """Changes to the tiny config that give it a model of this kind of active memory."""
    return {"model.kind": kind, "model.width": 1, "data.num_buckets": 2, **changes}


@pytest.mark.long
def test_a_run_is_evaluated_and_exported(tiny_config, command, tmp_path):
    run_dir = str(tmp_path / "run")
    changes = {"training.max_steps": 3, "training.jit_compile": "auto", "sweep.grids": [{"training.seed": [1]}]}
    assert train(tiny_config(with_kind("extended", **changes)), run_dir, NO_STRATEGY) == 0
    assert "jit_compile: auto" not in (tmp_path / "run/config.yaml").read_text("utf-8")
    evaluated = command(tmp_path, "memattn.eval", "--run_dir=run", "--repeats=1", "--plot=1").stdout
    assert "--plot: nothing drawn; the model has no attention, or every translation is empty\n" in evaluated
    assert 1 < Run(run_dir).result("valid").scores["perplexity"] < 100
    card = (tmp_path / "run/eval/valid/model_card.md").read_text("utf-8")
    for text in ("extended, 1 x 8 maps, 1 x cgru cells", "**perplexity**", "Can Active Memory Replace Attention"):
        assert text in card
    with pytest.raises(ConfigError, match="decoding.memory_ratio: "):
        saved_model.export(load([run_dir], [], None), str(tmp_path / "none"))
    overrides = ["decoding.memory_ratio=1.5", "decoding.max_source_length=6"]
    trained, pair = load([run_dir], overrides, None), load([run_dir, run_dir], [], None)
    saved_model.export(trained, str(tmp_path / "exported"))
    source = padded([[4, 5, 6, EOS], [6, EOS]], 8)
    outputs = tf.saved_model.load(str(tmp_path / "exported")).signatures["search"](source=source)
    expected = Searcher(trained.model, trained.config.decoding)(source.numpy())
    together = Searcher(pair.model, trained.config.decoding)(source.numpy())  # an ensemble of equal weights
    np.testing.assert_allclose(together.scores, expected.scores, rtol=1e-4)
    for row in range(2):
        length = int(expected.lengths[row, 0])
        np.testing.assert_array_equal(outputs["tokens"][row, 0, :length], expected.tokens[row, 0, :length])
