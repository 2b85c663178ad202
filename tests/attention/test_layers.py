"""Properties of every attention mechanism as a Keras layer: initial weights, files, masks, types, gradients.

All mechanisms of the package are tested, or those of --mechanism.
"""

import numpy as np
import pytest
import tensorflow as tf
from helpers.mechanisms import (
    KERAS_3,
    LAYER_CASES,
    LAYER_NAMES,
    B,
    D,
    S,
    T,
    array,
    assert_all_different,
    identify,
    make,
    random,
    random_weights,
)

from memattn import attention

pytestmark = pytest.mark.slow
every_name = pytest.mark.parametrize("name", LAYER_NAMES)


@pytest.fixture(params=LAYER_CASES, ids=identify)
def case(request):
    return request.param


# Initial weights


def initialized(case, initializer):
    """A built layer with weights from the initializer; None if the mechanism takes no initializer."""
    if not takes_initializer(case):
        return None
    layer = make(*case, initializer=initializer)
    layer.build((B, T, D), (B, S, D))
    return layer


def takes_initializer(case):
    return "initializer" in attention.mechanism(case[0]).constructor_arguments()


INITIALIZERS = {
    "class": lambda: tf.keras.initializers.HeNormal,
    "object": lambda: tf.keras.initializers.TruncatedNormal(stddev=0.5),
    "seeded object": lambda: tf.keras.initializers.GlorotUniform(seed=5),
    "seeded config": lambda: {"class_name": "RandomUniform", "config": {"minval": -1.0, "maxval": 1.0, "seed": 5}},
    "name": lambda: "he_normal",
    "generator": lambda: tf.keras.initializers.HeNormal(tf.keras.random.SeedGenerator(5)),
}


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        *((case, "seeded object") for case in LAYER_CASES if case[1]),
        *(((name, {}), kind) for name in LAYER_NAMES for kind in INITIALIZERS if KERAS_3 or kind != "generator"),
    ],
    ids=lambda value: value if isinstance(value, str) else identify(value),
)
def test_no_two_weights_have_equal_initial_values(case, kind):
    layer = initialized(case, INITIALIZERS[kind]())
    if layer is None:
        return
    weights = random_weights(layer)
    assert_all_different(weights)
    restored = type(layer).from_config(layer.get_config())
    restored.build((B, T, D), (B, S, D))
    assert [values.shape for values in random_weights(restored)] == [values.shape for values in weights]


@every_name
def test_a_seed_gives_the_same_weights_again(name):
    layers = [initialized((name, {}), tf.keras.initializers.HeNormal(seed=4)) for _ in range(2)]
    if layers[0] is not None:
        for first, second in zip(*map(random_weights, layers), strict=True):
            np.testing.assert_array_equal(first, second)


def test_weights_of_zeros_give_finite_contexts_and_gradients(case):
    layer, query = initialized(case, "zeros"), tf.constant(random(B, T, D))
    if layer is None:
        pytest.skip("it has no weights")
    with tf.GradientTape() as tape:
        tape.watch(query)
        context = layer(query, random(B, S, D, seed=2), training=True)
    assert np.isfinite(context).all()
    gradients = tape.gradient(context, [query, *layer.trainable_variables])
    assert all(np.isfinite(gradient).all() for gradient in gradients if gradient is not None)


def test_an_initializer_without_a_seed_is_used_unchanged():
    class Ascending(tf.keras.initializers.Initializer):
        def __init__(self, step=1.0):
            self.step = step

        def __call__(self, shape, dtype=None, **_):
            return self.step * tf.cast(tf.reshape(tf.range(np.prod(shape)), shape), dtype or tf.float32)

    layer = initialized(("luong", {}), Ascending(2.0))
    np.testing.assert_allclose(layer.key_layer.kernel, 2.0 * np.arange(D * D).reshape(D, D))
    layer = initialized(("luong", {}), lambda shape, dtype=None: tf.fill(shape, tf.constant(0.5, dtype or tf.float32)))
    np.testing.assert_allclose(layer.key_layer.kernel, np.full((D, D), 0.5))


# Files


class Block(tf.keras.layers.Layer):
    """A layer with a mechanism of a fixed name inside."""

    def __init__(self, case, **kwargs):
        super().__init__(**kwargs)
        self.inner = make(*case, name="inner")

    def call(self, query, value):
        return self.inner(query, value)


def functional(layers):
    query, value = (tf.keras.Input([None, D]) for _ in range(2))
    return tf.keras.Model([query, value], [layer(query, value) for layer in layers])


@pytest.mark.skipif(not KERAS_3, reason="Keras 2 has no paths")
def test_each_weight_has_a_unique_path_below_its_layer(case):
    plain, block = [make(*case) for _ in range(2)], Block(case)
    functional([*plain, block])
    paths = [weight.path for layer in [*plain, block] for weight in layer.weights]
    assert len(set(paths)) == len(paths)
    for layer in plain:
        assert all(weight.path.startswith(f"{layer.name}/") for weight in layer.weights)
    assert all(weight.path.startswith(f"{block.name}/inner/") for weight in block.weights)


@pytest.mark.skipif(not KERAS_3, reason="an older form of file")
@pytest.mark.parametrize(
    ("case", "form"),
    [
        *((case, "keras") for case in LAYER_CASES),
        *(((name, {}), form) for name in LAYER_NAMES for form in ("h5", "weights.h5")),
    ],
    ids=lambda value: value if isinstance(value, str) else identify(value),
)
def test_files_restore_both_layers_of_a_model(case, form, tmp_path):
    initializer = {"initializer": tf.keras.initializers.RandomNormal(stddev=0.7)} if takes_initializer(case) else {}

    def make_model():
        return functional([make(*case, **initializer) for _ in range(2)])

    model, path = make_model(), str(tmp_path / f"model.{form}")
    model.get_layer(index=2).set_weights([random(*weight.shape) for weight in model.get_layer(index=2).weights])
    inputs = [random(B, T, D), random(B, S, D, seed=2)]
    if form == "weights.h5":
        model.save_weights(path)
        loaded = make_model()
        loaded.load_weights(path)
    else:
        model.save(path)
        loaded = tf.keras.models.load_model(path, compile=False)
    for expected, actual in zip(model(inputs), loaded(inputs), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-6)


# Masks and positions

REAL = np.array([[True, True, True, True, True], [True, True, False, False, False]])


def test_masks_may_be_lists_and_arrays(case):
    query, value, layer = random(B, T, D), random(B, S, D, seed=2), make(*case)
    query_mask = np.array([[True, True, False], [True, False, True]])
    expected = layer(query, value, query_mask=tf.constant(query_mask), value_mask=tf.constant(REAL))
    for convert in (np.ndarray.tolist, np.asarray, lambda mask: mask.astype(np.int32), lambda mask: mask.astype("f4")):
        context = layer(query, value, query_mask=convert(query_mask), value_mask=convert(REAL))
        np.testing.assert_allclose(context, expected, atol=1e-6)
    np.testing.assert_array_equal(array(expected)[~query_mask], 0)
    shorter = layer(query[1:], value[1:, :2], query_mask=query_mask[1:].tolist())
    np.testing.assert_allclose(expected[1:], shorter, atol=1e-5)


def test_ragged_arguments_are_refused():
    layer = make("memory", {})
    dense, ragged = tf.zeros([2, 3, D]), tf.RaggedTensor.from_row_lengths(tf.zeros([4, D]), [1, 3])
    mask = tf.RaggedTensor.from_row_lengths(tf.ones([4], tf.bool), [1, 3])
    for refused, arguments, masks in [
        ("query", (ragged, dense), {}),
        ("value", (dense, ragged), {}),
        ("value_mask", (dense, dense), {"value_mask": mask}),
    ]:
        with pytest.raises(ValueError, match=f"{refused}: ragged"):
            layer(*arguments, **masks)


def test_inputs_of_unknown_width_are_refused():
    known, unknown = (tf.keras.layers.Input([None, width]) for width in (D, None))
    for refused, arguments in {"query": (unknown, known), "value": (known, unknown)}.items():
        with pytest.raises(ValueError, match=f"{refused}: the last axis must have a known width"):
            make("memory", {})(*arguments)


PLACES = {
    "right": [True, True, True, False, False],
    "left": [False, False, True, True, True],
    "holes": [False, True, False, True, True],
}


def random_layer(case):
    """A layer with random weights."""
    layer = make(*case)
    layer.build((1, 1, D), (1, 1, D))
    layer.set_weights([1.5 * random(*weight.shape, seed=5 + i) for i, weight in enumerate(layer.weights)])
    return layer


@pytest.mark.parametrize("where", PLACES)
def test_padding_may_stand_anywhere(case, where):
    """Three values give the same alone and in a batch with five, whatever the place and the content of the padding."""
    query, value, real = random(2, 4, D), random(2, 5, D, seed=2), np.array(PLACES[where])
    layer, three = random_layer(case), value[:1, :3]
    expected, expected_weights = layer(query[:1], three, return_attention_scores=True)
    batch = value.copy()
    batch[0, real], batch[0, ~real] = three[0], 9.0
    mask = np.stack([real, np.ones(5, bool)])
    context, weights = layer(query, batch, value_mask=mask, return_attention_scores=True)
    np.testing.assert_allclose(context[:1], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(array(weights)[:1, :, real], expected_weights, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(array(weights)[0][:, ~real], 0)
    longest, longest_weights = layer(query[1:], value[1:], return_attention_scores=True)
    np.testing.assert_allclose(context[1:], longest, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weights[1:], longest_weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("where", PLACES)
def test_padded_queries_change_no_other_context(case, where):
    layer, real = random_layer(case), np.array(PLACES[where])
    query, value = random(1, 3, D), random(1, 5, D, seed=2)
    padded = np.full((1, 5, D), 9.0, np.float32)
    padded[0, real] = query
    context, weights = layer(padded, value, query_mask=real[None], return_attention_scores=True)
    expected, expected_weights = layer(query, value, return_attention_scores=True)
    np.testing.assert_allclose(array(context)[0, real], expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(array(weights)[0, real], expected_weights[0], rtol=1e-4, atol=1e-5)


def test_masks_of_embeddings_reach_the_layers_around(case):
    """Padding of the query has a context of zeros, and stays masked for the next layer."""
    ids = tf.constant([[4, 5, 6, 7, 0], [8, 4, 0, 0, 0]])
    embedded = tf.keras.layers.Embedding(9, D, mask_zero=True)(ids)
    layer = make(*case)
    context = layer(embedded, embedded)
    explicit = layer(tf.identity(embedded), tf.identity(embedded), query_mask=ids != 0, value_mask=ids != 0)
    np.testing.assert_allclose(context, explicit, atol=1e-6)
    np.testing.assert_array_equal(array(context)[array(ids) == 0], 0)
    assert getattr(explicit, "_keras_mask", None) is None
    pooled = tf.keras.layers.GlobalAveragePooling1D()(context)
    np.testing.assert_allclose(pooled[1], tf.reduce_mean(context[1, :2], 0), atol=1e-6)


# Values


def test_a_source_without_positions_gives_contexts_of_zeros(case):
    layer = make(*case)
    context, weights = layer(random(B, T, D), np.zeros((B, 0, D), np.float32), return_attention_scores=True)
    np.testing.assert_array_equal(context, np.zeros((B, T, layer.context_size(D))))
    assert weights.shape == (B, T, 0)
    padded, zero = layer(random(B, T, D), random(B, S, D), value_mask=np.zeros((B, S)), return_attention_scores=True)
    np.testing.assert_allclose(padded, np.zeros((B, T, layer.context_size(D))), atol=1e-6)
    np.testing.assert_array_equal(zero, np.zeros((B, T, S)))


def test_a_call_takes_variables(case):
    query, value, layer = random(B, T, D), random(B, S, D, seed=2), make(*case)
    expected = layer(query, value, value_mask=REAL)
    for kind in (tf.Variable, tf.keras.Variable if KERAS_3 else tf.Variable):
        np.testing.assert_allclose(layer(kind(query), kind(value), value_mask=REAL), expected, atol=1e-6)


def test_gradients_are_the_numeric_ones_in_float64(case):
    """The slope along a random direction of inputs and weights; any float32 would cause 1,000 times the tolerance."""
    layer = make(*case, dtype="float64")
    layer.build((B, T, D), (B, S, D))
    generator = np.random.default_rng(8)
    points = [tf.constant(generator.normal(size=[B, length, D])) for length in (T, S)]
    points += [tf.constant(generator.normal(size=weight.shape)) for weight in layer.weights]
    directions = [tf.constant(generator.normal(size=point.shape)) for point in points]
    factors = tf.constant(generator.normal(size=[B, T, layer.context_size(D)]))
    mask = tf.constant([[True] * S, PLACES["left"]])

    def loss(step=0.0):
        for weight, point, direction in zip(layer.weights, points[2:], directions[2:], strict=True):
            weight.assign(point + step * direction)
        query, value = (point + step * direction for point, direction in zip(points[:2], directions, strict=False))
        with tf.GradientTape() as tape:
            tape.watch([query, value])
            total = tf.reduce_sum(factors * layer(query, value, value_mask=mask))
        return total, lambda: tape.gradient(total, [query, value, *layer.trainable_weights])

    _, gradients = loss()
    slope = sum(
        tf.reduce_sum(tf.convert_to_tensor(gradient) * direction)
        for gradient, direction in zip(gradients(), directions, strict=True)
        if gradient is not None  # hard steps only compare energies, which gives them no gradient
    )
    numeric = (loss(1e-6)[0] - loss(-1e-6)[0]) / 2e-6
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-6)


def test_a_model_may_leave_the_lengths_unknown(case):
    query, value = (tf.keras.Input([None, D]) for _ in range(2))
    layer = make(*case)
    context, weights = layer(query, value, return_attention_scores=True)
    assert (tuple(context.shape), tuple(weights.shape)) == ((None, None, layer.context_size(D)), (None, None, None))
    model = tf.keras.Model([query, value], [context, weights])
    graph = tf.function(lambda *arguments: model([*arguments]), input_signature=[tf.TensorSpec([None, None, D])] * 2)
    for steps, length in ((T, S), (1, 1), (2, 9)):
        arguments = random(B, steps, D), random(B, length, D, seed=2)
        expected = layer(*arguments, return_attention_scores=True)
        outputs = graph(*map(tf.constant, arguments))
        for output, expected_output in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(output, expected_output, atol=1e-5)
            assert output.shape == expected_output.shape
