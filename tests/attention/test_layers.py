"""Properties of every attention mechanism as a Keras layer: initial weights, files, masks, types, gradients.

All mechanisms of the package are tested, or those of --mechanism.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from helpers.equations import array
from helpers.marks import CHOSEN
from helpers.mechanisms import CASES, KERAS_3, B, D, S, T, identify, make, random

from memattn import attention

pytestmark = pytest.mark.slow


def random_weights(layer):
    """The random weights of a layer, flattened: those that hold more than zeros and ones."""
    return [values for values in (array(weight).ravel() for weight in layer.weights) if len(np.unique(values)) > 2]


@pytest.fixture(params=CASES, ids=identify)
def case(request):
    return request.param


# One mechanism that is not recurrent and one that is, for what the base class does.
REPRESENTATIVES = CASES if CHOSEN else [("memory", {}), ("mocha", {})]
on_representatives = pytest.mark.parametrize("case", REPRESENTATIVES, ids=identify)


def initialized(case, initializer):
    """A built layer with weights from the initializer; None if the mechanism takes no initializer."""
    if "initializer" not in attention.mechanism(case[0]).constructor_arguments():
        return None
    layer = make(*case, initializer=initializer)
    layer.build((B, T, D), (B, S, D))
    return layer


INITIALIZERS = {
    "seeded object": lambda: tf.keras.initializers.GlorotUniform(seed=5),
    "seeded config": lambda: {"class_name": "RandomUniform", "config": {"minval": -1.0, "maxval": 1.0, "seed": 5}},
    "name": lambda: "he_normal",
}


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        *((case, "seeded object") for case in CASES),
        *((case, kind) for case in REPRESENTATIVES for kind in ("seeded config", "name")),
    ],
    ids=lambda value: value if isinstance(value, str) else identify(value),
)
def test_no_two_weights_have_equal_initial_values(case, kind):
    layer = initialized(case, INITIALIZERS[kind]())
    if layer is None:
        return
    weights = random_weights(layer)
    for first, second in itertools.combinations(weights, 2):
        assert first.shape != second.shape or np.abs(first - second).max() > 1e-3
    restored = type(layer).from_config(layer.get_config())
    restored.build((B, T, D), (B, S, D))
    for values, restored_values in zip(weights, random_weights(restored), strict=True):
        assert values.shape == restored_values.shape
        if kind.startswith("seeded"):
            np.testing.assert_array_equal(values, restored_values)


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
    layer = initialized(("luong", {}), lambda shape, dtype=None: tf.fill(shape, tf.constant(0.5, dtype or tf.float32)))
    np.testing.assert_array_equal(layer.key_layer.kernel, np.full((D, D), 0.5))


@pytest.mark.skipif(not KERAS_3, reason="an older form of file")
def test_a_file_restores_both_layers_of_a_model(case, tmp_path):
    query, value = (tf.keras.Input([None, D]) for _ in range(2))
    model = tf.keras.Model([query, value], [make(*case)(query, value) for _ in range(2)])
    model.get_layer(index=2).set_weights([random(*weight.shape) for weight in model.get_layer(index=2).weights])
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras", compile=False)
    inputs = [random(B, T, D), random(B, S, D, seed=2)]
    for expected, actual in zip(model(inputs), loaded(inputs), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-6)


MASKS = {
    "right": [True, True, True, False, False],
    "left": [False, False, True, True, True],
    "holes": [False, True, False, True, True],
}


def test_padding_may_stand_anywhere(case):
    """Three queries of three values have the same contexts alone and in a batch with five, wherever padding stands."""
    mask = np.array([*MASKS.values(), [True] * 5])
    query, value, layer = random(len(mask), 5, D), random(len(mask), 5, D, seed=2), make(*case)
    layer.build((1, 1, D), (1, 1, D))
    layer.set_weights([1.5 * random(*weight.shape, seed=5 + i) for i, weight in enumerate(layer.weights)])
    three = [batch[:1, :3].copy() for batch in (query, value)]
    for batch, short in zip((query, value), three, strict=True):
        for row, real in zip(batch, mask[:-1], strict=False):
            row[real], row[~real] = short[0], 9.0
    masks = {"query_mask": mask, "value_mask": mask}
    context, weights = map(array, layer(query, value, **masks, return_attention_scores=True))
    expected, expected_weights = layer(*three, return_attention_scores=True)
    for row, real in enumerate(mask[:-1]):
        np.testing.assert_allclose(context[row, real], expected[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(weights[row][np.ix_(real, real)], expected_weights[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(context[row, ~real], 0)
        np.testing.assert_array_equal(weights[row][:, ~real], 0)
    expected, expected_weights = layer(query[-1:], value[-1:], return_attention_scores=True)
    np.testing.assert_allclose(context[-1:], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weights[-1:], expected_weights, rtol=1e-4, atol=1e-5)


@on_representatives
def test_masks_may_be_lists_and_arrays(case):
    query, value, layer = random(B, T, D), random(B, S, D, seed=2), make(*case)
    masks = {"query_mask": [[True, True, False]] * B, "value_mask": [MASKS["left"]] * B}
    expected = layer(query, value, **{name: tf.constant(mask) for name, mask in masks.items()})
    for kind in (list, np.array, lambda mask: np.array(mask, "f4")):
        context = layer(query, value, **{name: kind(mask) for name, mask in masks.items()})
        np.testing.assert_allclose(context, expected, atol=1e-6)


@on_representatives
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_masks_of_embeddings_reach_the_layers_around(case, dtype):
    """Padding of the query has a context of zeros, and stays masked for the next layer, whatever types these have."""
    ids = tf.constant([[4, 5, 6, 7, 0], [8, 4, 0, 0, 0]])
    embedded = tf.keras.layers.Embedding(9, D, mask_zero=True)(ids)
    layer = make(*case, dtype=dtype)
    context = layer(embedded, embedded)
    explicit = layer(tf.identity(embedded), tf.identity(embedded), query_mask=ids != 0, value_mask=ids != 0)
    np.testing.assert_allclose(context, explicit, atol=1e-6)
    np.testing.assert_array_equal(array(context)[array(ids) == 0], 0)
    assert getattr(explicit, "_keras_mask", None) is None
    pooled = tf.keras.layers.GlobalAveragePooling1D()(context)
    np.testing.assert_allclose(pooled[1], tf.reduce_mean(context[1, :2], 0), atol=1e-6)


def test_a_source_without_positions_gives_contexts_of_zeros(case):
    layer = make(*case)
    context, weights = layer(random(B, T, D), np.zeros((B, 0, D), np.float32), return_attention_scores=True)
    np.testing.assert_array_equal(context, np.zeros((B, T, layer.context_size(D))))
    assert weights.shape == (B, T, 0)
    padded, zero = layer(random(B, T, D), random(B, S, D), value_mask=np.zeros((B, S)), return_attention_scores=True)
    np.testing.assert_allclose(padded, np.zeros((B, T, layer.context_size(D))), atol=1e-6)
    np.testing.assert_array_equal(zero, np.zeros((B, T, S)))


def test_gradients_are_the_numeric_ones_in_float64(case):
    """The slope along a random direction of inputs and weights; any float32 would cause 1,000 times the tolerance."""
    layer = make(*case, dtype="float64")
    layer.build((B, T, D), (B, S, D))
    generator = np.random.default_rng(8)
    points = [tf.constant(generator.normal(size=[B, length, D])) for length in (T, S)]
    points += [tf.constant(generator.normal(size=weight.shape)) for weight in layer.weights]
    directions = [tf.constant(generator.normal(size=point.shape)) for point in points]
    factors = tf.constant(generator.normal(size=[B, T, layer.context_size(D)]))
    mask = tf.constant([[True] * S, MASKS["left"]])

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
