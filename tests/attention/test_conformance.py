"""Properties of every attention mechanism within a model. All mechanisms of the package are tested.

A mechanism outside the package is tested by
`pytest tests/attention/test_conformance.py --mechanism my_package.my_module:MyAttention`.
"""

import numpy as np
import pytest
import tensorflow as tf
from helpers.marks import CHOSEN, slow
from helpers.mechanisms import EVERY_MODEL, EVERY_NAME, NAMES, REPRESENTATIVE_MODELS, XLA_MODELS, identify
from helpers.models import (
    SOURCES,
    T,
    V,
    arrays,
    assert_close_to_full_precision,
    assert_same_hypotheses,
    make_model,
    padded,
    search,
    searcher,
    steps,
)
from helpers.runs import NO_STRATEGY, free
from tensorflow.python.eager import context

from memattn import attention
from memattn.attention.ops import masked_softmax
from memattn.config import DecodingConfig, TrainingConfig
from memattn.data.vocabulary import BOS, EOS
from memattn.models import attentive_decoder
from memattn.models.attentive_decoder import ContextKernels, PrecomputedReader, Reader
from memattn.models.interface import Ensemble
from memattn.search.searcher import Searcher
from memattn.training.step import TrainingStep


class LeastSeen(attention.AttentionMechanism):
    """A recurrent mechanism that prefers positions with little attention so far: its state is the sum of its scores."""

    def memorize(self, states, mask):
        return {"values": states, "mask": mask}

    def initial_state(self, memory, num_queries):
        batch, length = tf.unstack(tf.shape(memory["mask"]))
        return tf.zeros([batch, num_queries, length])

    def score(self, query, memory, state=(), seed=None):
        logits = tf.reduce_sum(memory["values"], -1)[:, None] + tf.reduce_sum(query, -1, keepdims=True) - 3 * state
        scores = masked_softmax(logits, memory["mask"][:, None])
        return scores, state + scores


@pytest.fixture(scope="module", params=EVERY_MODEL, ids=identify)
def model(request):
    name, options, switches = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attention.MECHANISMS, "least_seen", LeastSeen)
        yield make_model(name, options, **switches)
    searcher.cache_clear()
    free()


on_representative_models = pytest.mark.parametrize("model", REPRESENTATIVE_MODELS, indirect=True, ids=identify)


def limit(source):
    """The maximum number of tokens of a hypothesis."""
    return int(np.ceil(1.5 * len(source)))


def greedy(model):
    """The greedy hypothesis of each source."""
    step, tokens, tokens_by_step = steps(model), np.full(len(SOURCES), BOS), []
    for _ in range(max(map(limit, SOURCES))):
        tokens = step(tokens).argmax(-1)
        tokens_by_step.append(tokens)
    rows = [list(row[: limit(source)]) for row, source in zip(np.stack(tokens_by_step, 1), SOURCES, strict=True)]
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]


def test_teacher_forced_equals_step_wise(model):
    targets = np.array([[5, 7, 4, 9, EOS], [6, 6, 8, 10, EOS], [4, 5, 6, 7, EOS], [9, 3, 3, 5, EOS]])
    forced = tf.nn.log_softmax(model(padded(SOURCES), tf.constant(targets)))
    step = steps(model)
    step_wise = [step(tokens) for tokens in (np.full(len(SOURCES), BOS), *targets.T[:-1])]
    np.testing.assert_allclose(forced, np.stack(step_wise, 1), rtol=1e-4, atol=1e-5)


def test_decoder_steps_are_the_same_with_and_without_precomputed_products(model, monkeypatch):
    encoded, queries, results = model.encode(padded(SOURCES, 9)), 3, []
    tokens = np.random.default_rng(3).integers(4, V, [T, len(SOURCES), queries])
    for pays in (False, True):
        monkeypatch.setattr(attentive_decoder, "precomputing_pays", lambda *_, pays=pays: pays)
        decoding, state = model.start(encoded, queries, model.token_table())
        assert type(decoding.stepper.reader) is (PrecomputedReader if pays else Reader)
        outputs = []
        for tokens_of_step in tokens:
            logits, scores, state = model.step(tf.constant(tokens_of_step), state, decoding)
            outputs.append(np.concatenate([logits, scores], -1))
        results.append(outputs)
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("slots", "pays"), [(32, True), (852, True), (854, False), (None, False)])
def test_precomputing_pays_where_it_takes_fewer_multiplications(slots, pays):
    """With U = 256 and D = 512, M * 5U (precomputed) equals M * D + D * 5U at M = 853.3."""
    kernels = ContextKernels(tf.zeros([512, 1024]), tf.zeros([512, 256]))
    assert attentive_decoder.precomputing_pays(slots, 512, kernels) == pays
    assert not attentive_decoder.precomputing_pays(0, 0, kernels.map(lambda kernel: kernel[:0]))


def test_padding_and_batch_change_no_logits(model):
    targets = [source[:-1][::-1] + [EOS] for source in SOURCES]
    together = model(padded(SOURCES, 12), padded(targets, 9)).numpy()
    turned = model(padded(SOURCES[::-1], 8), padded(targets[::-1])).numpy()[::-1]
    for i, (source, target) in enumerate(zip(SOURCES, targets, strict=True)):
        alone = model(padded([source]), padded([target])).numpy()[0]
        np.testing.assert_allclose(together[i, : len(target)], alone, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(turned[i, : len(target)], alone, rtol=1e-4, atol=1e-5)


@on_representative_models
def test_padding_and_batch_change_no_hypothesis(model):
    together = search(model, SOURCES)
    assert_same_hypotheses(search(model, SOURCES[::-1])[::-1], together)
    for row in (1, 3):
        assert_same_hypotheses(search(model, [SOURCES[row]], width=5), [together[row]])


@on_representative_models
def test_a_beam_of_size_1_is_greedy(model):
    hypotheses = search(model, SOURCES, beam_size=1, length_penalty=0.0)
    assert [row[0][0] for row in hypotheses] == greedy(model)


def test_beam_scores_are_teacher_forced_scores(model):
    """One source is empty, one has an unknown token, one is longer than all sources of the training set."""
    for source, hypotheses in zip(SOURCES, search(model, SOURCES), strict=True):
        assert hypotheses
        targets = [[*tokens, EOS][: limit(source)] for tokens, _ in hypotheses]
        logits = model(tf.repeat([source], len(hypotheses), 0), padded(targets))
        for log_probs, target, (tokens, score) in zip(
            tf.nn.log_softmax(logits).numpy(), targets, hypotheses, strict=True
        ):
            total = sum(log_probs[position, token] for position, token in enumerate(target))
            np.testing.assert_allclose(score, total / ((5 + len(tokens)) / 6) ** 0.7, rtol=1e-4)


def test_every_weight_has_a_finite_gradient(model):
    with tf.GradientTape() as tape:
        logits = model(padded(SOURCES), padded(SOURCES), tf.constant([1, 2]))
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(padded(SOURCES), logits))
    for weight, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True):
        assert gradient is not None, weight.name
        values = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(values).all()
        is_memory = isinstance(model.attention, attention.MemoryAttention)
        scores_single_slot = is_memory and model.attention.num_slots == 1 and values.shape[-1] == 1
        # The softmax over a single slot is constant: its gradient is 0, or 1e-8 with rounding.
        assert (np.abs(values).max() > 1e-7) != scores_single_slot


@pytest.mark.slow
@pytest.mark.parametrize("model", XLA_MODELS, indirect=True, ids=identify)
def test_graph_and_xla_agree(model):
    for sources in (SOURCES, SOURCES[:1]):  # XLA also compiles the encoder of a single sentence
        assert_same_hypotheses(search(model, sources, jit_compile=True), search(model, sources))


@pytest.mark.parametrize("name", CHOSEN or list(map(slow, ("memory", "local_m", "mocha"))))
def test_every_kind_of_mechanism_trains_by_default(name):
    """With XLA from TensorFlow 2.20 on. The last row of the batch is padding, as in the last batch of an epoch."""
    model, batch = make_model(name, {}), padded([*SOURCES, []]).numpy()
    before = arrays(model)
    step = TrainingStep(model, TrainingConfig(batch_size=5), NO_STRATEGY)
    assert np.isfinite(step([(batch, batch)], 0, 0.1)).all()
    assert all((old != new).any() for old, new in zip(before, arrays(model), strict=True))


@pytest.mark.parametrize("name", CHOSEN or list(map(slow, NAMES)))
def test_every_mechanism_computes_in_mixed_precision(name):
    """Weights stay in float32. The last row of the batch is padding."""
    model, batch = make_model(name, {}, dtype="mixed_bfloat16"), padded([*SOURCES, []])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.cast(model(batch, batch, tf.constant([1, 2])), tf.float32)))
    gradients = tape.gradient(loss, model.trainable_variables)
    for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert tf.as_dtype(weight.dtype) == tf.float32
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()
    assert_close_to_full_precision(model)


@pytest.fixture
def optimizer():
    """Enables TensorFlow's graph optimizer, as it is by default; other tests run without."""
    options_before = {"arithmetic_optimization": True, **tf.config.optimizer.get_experimental_options()}
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False, "arithmetic_optimization": True})
    yield
    tf.config.optimizer.set_experimental_options(options_before)


@pytest.mark.long
@pytest.mark.parametrize("name", EVERY_NAME)
@pytest.mark.usefixtures("optimizer")
def test_concurrent_searches_share_no_temporary_variable(name):
    """Searches at the same time must not share variables, and graphs of searches hold none.

    TensorFlow's optimizer turns a sum of three terms into an AddN, which may use a variable of the process.
    """
    model = make_model(name, {})
    for coverage_penalty, each in enumerate([model, Ensemble([model] * 3)] if name == "memory" else [model]):
        config = DecodingConfig(beam_size=2, jit_compile=False, coverage_penalty=coverage_penalty)
        operations = optimized(Searcher(each, config), padded(SOURCES).numpy())
        assert {"MatMul", "TopKV2"} <= operations
        assert not operations & {"AddN", "TemporaryVariable"}
    # Elsewhere, the optimizer keeps its options.
    assert "AddN" in optimized(tf.function(lambda x: x @ x + tf.exp(x) + tf.tanh(x)), tf.eye(9))


def optimized(function, *arguments):
    """The kinds of operations in the optimized graphs that a call runs."""
    context.context().enable_run_metadata()
    function(*arguments)
    metadata = context.context().export_run_metadata()
    graphs = [function_graph.post_optimization_graph for function_graph in metadata.function_graphs]
    context.context().disable_run_metadata()
    nodes = [node for graph in graphs for node in graph.node]
    nodes_of_called_functions = [
        node for graph in graphs for called in graph.library.function for node in called.node_def
    ]
    return {node.op for node in [*nodes, *nodes_of_called_functions]}


def test_slot_alignments_sum_to_the_combined_alignment(model):
    combined, slots = (share(padded(SOURCES), padded(SOURCES)) for share in (model.alignments, model.slot_shares))
    assert combined.shape == (len(SOURCES), 7, 7)
    assert slots.shape == (len(SOURCES), model.attention.num_slots or 0, 7, 7)
    if model.attention.num_slots:
        np.testing.assert_allclose(combined.numpy(), slots.numpy().sum(1), rtol=1e-5, atol=1e-6)
    assert np.abs(combined.numpy()[1, :, 2:]).max() == 0  # padding gets no weight
