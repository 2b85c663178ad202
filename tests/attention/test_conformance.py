"""Properties of every attention mechanism within a model. A mechanism is under test once the registry holds it.

`pytest tests/attention/test_conformance.py --mechanism my_package.my_module:MyAttention` tests one outside the package.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from helpers.marks import slow
from helpers.mechanisms import EVERY_CASE, EVERY_MODEL, EVERY_NAME, LAYER_NAMES, SLOW_NAMES, LeastSeen, identify
from helpers.models import (
    SOURCES,
    T,
    V,
    assert_close_to_full_precision,
    assert_trains,
    make_model,
    padded,
    search,
    searcher,
    steps,
)
from helpers.runs import free
from tensorflow.python.eager import context

from memattn import attention
from memattn.config import DecodingConfig
from memattn.data.sentences import Sentences
from memattn.data.vocabulary import BOS, EOS
from memattn.models import reader
from memattn.models.ensemble import Ensemble
from memattn.models.reader import FoldedReader, Reader
from memattn.search.searcher import Searcher, decode


@pytest.fixture(scope="module", params=EVERY_MODEL, ids=identify)
def model(request):
    name, options, switches = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attention.MECHANISMS, "least_seen", LeastSeen)
        yield make_model(name, options, **switches)
    searcher.cache_clear()
    free()


def limit(source):
    """Most tokens of a hypothesis."""
    return int(np.ceil(1.5 * len(source)))


def greedy(model):
    """The greedy hypothesis of each source."""
    step, tokens, found = steps(model), np.full(len(SOURCES), BOS), []
    for _ in range(max(map(limit, SOURCES))):
        tokens = step(tokens).argmax(-1)
        found.append(tokens)
    rows = [list(row[: limit(source)]) for row, source in zip(np.stack(found, 1), SOURCES, strict=True)]
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]


def assert_same(found, expected):
    for row, expected_row in zip(found, expected, strict=True):
        assert [tokens for tokens, _ in row] == [tokens for tokens, _ in expected_row]
        np.testing.assert_allclose([score for _, score in row], [score for _, score in expected_row], rtol=1e-4)


def test_teacher_forced_equals_step_wise(model):
    targets = np.array([[5, 7, 4, 9, EOS], [6, 6, 8, 10, EOS], [4, 5, 6, 7, EOS], [9, 3, 3, 5, EOS]])
    forced = tf.nn.log_softmax(model(padded(SOURCES), tf.constant(targets)))
    step = steps(model)
    step_wise = [step(tokens) for tokens in (np.full(len(SOURCES), BOS), *targets.T[:-1])]
    np.testing.assert_allclose(forced, np.stack(step_wise, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("queries", [1, 2, 5, 12])
def test_folded_steps_are_the_unfolded_ones(model, queries, monkeypatch):
    batch = padded(SOURCES, 9)
    encoded = model.encode(batch)
    tokens = np.random.default_rng(3).integers(4, V, [T, len(SOURCES), queries])
    steps = []
    for pays in (False, True):
        monkeypatch.setattr(reader, "folding_pays", lambda *_, pays=pays: pays)
        decoding, state = model.start(encoded, queries, model.token_table())
        assert type(decoding.stepper._reader) is (FoldedReader if pays else Reader)
        logits = []
        for own in tokens:
            own, scores, state = model.step(tf.constant(own), state, decoding)
            logits.append(np.concatenate([own, scores], -1))
        steps.append(logits)
    np.testing.assert_allclose(*steps, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("slots", "pays"),
    [(32, True), (200, True), (852, True), (854, False), (2000, False), (None, False)],
)
def test_folding_is_for_memories_where_it_takes_fewer_multiplications(slots, pays):
    """U = 256, D = 512: M * 5U against M * D + D * 5U is even at M = 853.3."""
    kernels = tf.zeros([512, 1024]), tf.zeros([512, 256])
    assert reader.folding_pays(slots, 512, *kernels) == pays
    assert not reader.folding_pays(0, 0, tf.zeros([0, 1024]), tf.zeros([0, 256]))


def test_padding_and_batch_change_no_logits(model):
    targets = [source[:-1][::-1] + [EOS] for source in SOURCES]
    together = model(padded(SOURCES, 12), padded(targets, 9)).numpy()
    turned = model(padded(SOURCES[::-1], 8), padded(targets[::-1])).numpy()[::-1]
    for i, (source, target) in enumerate(zip(SOURCES, targets, strict=True)):
        alone = model(padded([source]), padded([target])).numpy()[0]
        np.testing.assert_allclose(together[i, : len(target)], alone, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(turned[i, : len(target)], alone, rtol=1e-4, atol=1e-5)


def test_padding_and_batch_change_no_hypothesis(model):
    together = search(model, SOURCES)
    assert_same(search(model, SOURCES[::-1])[::-1], together)
    for place in (1, 3):
        assert_same(search(model, [SOURCES[place]], width=5), [together[place]])


def test_a_beam_of_size_1_is_greedy(model):
    found = search(model, SOURCES, beam_size=1, length_penalty=0.0)
    assert [row[0][0] for row in found] == greedy(model)


def test_beam_scores_are_teacher_forced_scores(model):
    for source, found in zip(SOURCES, search(model, SOURCES), strict=True):
        assert found
        targets = [[*tokens, EOS][: limit(source)] for tokens, _ in found]
        log_probs = tf.nn.log_softmax(model(tf.repeat([source], len(found), 0), padded(targets))).numpy()
        for own, target, (tokens, score) in zip(log_probs, targets, found, strict=True):
            total = sum(own[place, token] for place, token in enumerate(target))
            np.testing.assert_allclose(score, total / ((5 + len(tokens)) / 6) ** 0.7, rtol=1e-4)


def test_every_weight_has_a_finite_gradient(model):
    with tf.GradientTape() as tape:
        logits = model(padded(SOURCES), padded(SOURCES), tf.constant([1, 2]))
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(padded(SOURCES), logits))
    for weight, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True):
        assert gradient is not None, weight.name
        values = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(values).all()
        softmax_over_slots = isinstance(model.attention, attention.MemoryAttention)
        softmax_over_one_slot = softmax_over_slots and model.attention.num_slots == 1 and values.shape[-1] == 1
        assert (np.abs(values).max() > 1e-7) != softmax_over_one_slot  # rounded, a gradient of 0 may be 1e-8


def test_graph_and_xla_agree(model):
    assert_same(search(model, SOURCES, jit_compile=True), search(model, SOURCES))


@pytest.mark.parametrize("name", EVERY_NAME)
def test_every_mechanism_trains_by_default(name):
    assert_trains(make_model(name, {}))


@pytest.mark.parametrize("name", [slow(name) if name in SLOW_NAMES else name for name in LAYER_NAMES])
def test_every_mechanism_computes_in_mixed_precision(name):
    """Weights stay in float32. A row of padding fills the batch up."""
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
    """TensorFlow's graph optimizer as it is by default."""
    before = {"arithmetic_optimization": True, **tf.config.optimizer.get_experimental_options()}
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False, "arithmetic_optimization": True})
    yield
    tf.config.optimizer.set_experimental_options(before)


@pytest.mark.parametrize("name", EVERY_NAME)
@pytest.mark.usefixtures("optimizer")
def test_batches_at_once_share_no_temporary_variable(name):
    """TensorFlow may put a sum of three, which its optimizer makes one AddN, into a variable of the whole process."""
    assert "AddN" in optimized(tf.function(lambda x: x @ x + tf.exp(x) + tf.tanh(x)), tf.eye(9))
    model = make_model(name, {})
    models = [model, Ensemble([model] * 3)] if name == "memory" else [model]
    options = tf.config.optimizer.get_experimental_options()
    for coverage_penalty, one in enumerate(models):
        config = DecodingConfig(beam_size=2, jit_compile=False, coverage_penalty=coverage_penalty)
        operations = optimized(Searcher(one, config), padded(SOURCES).numpy())
        assert {"MatMul", "TopKV2"} <= operations
        assert not operations & {"AddN", "TemporaryVariable"}
    assert tf.config.optimizer.get_experimental_options() == options  # those of the rest of the process
    assert "AddN" in optimized(tf.function(lambda x: x @ x + tf.exp(x) + tf.tanh(x)), tf.eye(9))


def optimized(function, *arguments):
    """The kinds of operations in what TensorFlow makes of the graphs that a call runs."""
    context.context().enable_run_metadata()
    function(*arguments)
    graphs = [one.post_optimization_graph for one in context.context().export_run_metadata().function_graphs]
    context.context().disable_run_metadata()
    called = [node for graph in graphs for own in graph.library.function for node in own.node_def]
    return {node.op for node in [*called, *(node for graph in graphs for node in graph.node)]}


def test_sources_out_of_the_ordinary_decode(model):
    """Each into what the model, given that source alone, gives the same log-probability."""
    unseen = [[3] * 8 + [EOS], [EOS], list(range(4, V)) * 6 + [EOS]]  # unknown, empty, far longer than any seen
    offsets = np.cumsum([0, *map(len, unseen)])
    sentences = Sentences(np.concatenate(unseen).astype(np.int32), offsets)
    config, ids = DecodingConfig(beam_size=3, jit_compile=False, max_length=8), SimpleNamespace(decode=list)
    translations, _ = decode(Searcher(model, config), sentences, ids, num_buckets=1)
    for source, most, translation in zip(unseen, [8, 2, 8], translations, strict=True):
        (tokens,), (score,) = translation.hypotheses, translation.scores
        target = [*tokens, EOS][:most]
        log_probs = tf.nn.log_softmax(model(padded([source]), padded([target])))[0].numpy()
        np.testing.assert_allclose(log_probs[range(len(target)), target].sum(), score, rtol=1e-4)


def test_slot_alignments_sum_to_the_combined_alignment(model):
    combined, slots = model.alignments(padded(SOURCES), padded(SOURCES))
    assert combined.shape == (len(SOURCES), 7, 7)
    assert slots.shape == (len(SOURCES), model.attention.num_slots or 0, 7, 7)
    if model.attention.num_slots:
        np.testing.assert_allclose(combined.numpy(), slots.numpy().sum(1), rtol=1e-5, atol=1e-6)
    assert np.abs(combined.numpy()[1, :, 2:]).max() == 0  # padding gets no weight


@pytest.mark.parametrize(("name", "options"), EVERY_CASE)
def test_mechanisms_serialize(name, options):
    def read(mechanism):
        memory = mechanism.memorize(tf.constant(states), tf.sequence_mask([5, 3], 5))
        scores, _ = mechanism.score(tf.constant(queries), memory, mechanism.initial_state(memory, 4))
        return tf.matmul(scores, memory["values"]).numpy()

    random = np.random.default_rng(2)
    states, queries = (random.normal(size=(2, length, 8)).astype(np.float32) for length in (5, 4))
    original = attention.build(name, options, units=8, max_source_length=6, initializer="glorot_uniform")
    expected = read(original)
    restored = tf.keras.layers.deserialize(tf.keras.layers.serialize(original))
    for copy in (type(original).from_config(original.get_config()), restored):
        assert copy.get_config() == original.get_config() == {**original.get_config(), **options}
        read(copy)
        copy.set_weights(original.get_weights())
        np.testing.assert_allclose(read(copy), expected, rtol=1e-5, atol=1e-6)
