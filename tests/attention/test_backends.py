"""The layers on every backend of Keras 3: outputs equal those stored under TensorFlow; models train and are saved.

`make test-backends` runs this file on JAX and PyTorch, in environments without TensorFlow. After a change of outputs,
`PYTHONPATH=.:tests python tests/attention/test_backends.py` stores those of TensorFlow.
"""

import doctest
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.marks import slow

from memattn import layers
from memattn.attention import MECHANISMS

STORED = Path(__file__).with_name("backends.npz")
BACKEND = keras.backend.backend()
B, T, S, WIDTH = 2, 3, 5, 4
CASES = [
    *((name, {}) for name in MECHANISMS),
    ("memory", {"num_slots": 3, "position_encoding": True, "renormalize": "mean", "decoder_scoring": "sigmoid"}),
    *((name, {"num_slots": 3, "read": "address"}) for name in ("windowed_memory", "stretch_means", "latents")),
    ("bahdanau", {"cache_keys": False}),
    ("feed_forward", {"weighted": False}),
    ("linear", {"projection": 3, "gated": True, "normalize": "none"}),
    ("local_m", {"window": 1}),
    ("local_p", {"window": 2}),
    *((name, {"test_mode": "soft"}) for name in ("monotonic", "mocha", "matcha")),
    ("mocha", {"test_mode": "soft", "chunk_size": None}),
    *(("slots", {"num_slots": 3, "writing": writing}) for writing in ("windows", "weights", "means")),
]
IDS = ["-".join([name, *map(str, options.values())]) for name, options in CASES]
RECURRENT = ("local_m", "monotonic", "mocha", "matcha")

pytestmark = pytest.mark.skipif(keras.__version__ < "3", reason="Keras 2 has one backend")


def make(name, options, **keras_options):
    if name == "slots":
        return layers.SlotMemory(**options, **keras_options)
    sizes = {"units": WIDTH, "max_source_length": S, "read_units": 3, "num_slots": 3}
    known = MECHANISMS[name].constructor_arguments()
    return MECHANISMS[name](**{key: sizes[key] for key in sizes if key in known} | options, **keras_options)


def call(layer, query, value, query_mask, value_mask):
    """Returns the outputs of a layer as arrays: context or slots, and weights."""
    if isinstance(layer, layers.SlotMemory):
        outputs = layer(value, mask=value_mask, return_attention_scores=True)
    else:
        masks = {"query_mask": query_mask, "value_mask": value_mask}
        outputs = layer(query, value, **masks, return_attention_scores=True)
    return [keras.ops.convert_to_numpy(keras.ops.cast(output, "float32")) for output in outputs]


def stored(identity):
    """Returns the stored inputs, and the weights and outputs of a case."""
    with np.load(STORED) as arrays:
        inputs = [arrays[name] for name in ("query", "value", "query_mask", "value_mask")]
        names = [[f"{identity}/{kind}{i}" for i in range(30)] for kind in ("weight", "output")]
        return inputs, *([arrays[name] for name in kind if name in arrays] for kind in names)


def store():
    """Stores inputs, random weights and outputs."""
    random = np.random.default_rng(1)
    arrays = {
        "query": random.normal(size=(B, T, WIDTH)).astype(np.float32),
        "value": random.normal(size=(B, S, WIDTH)).astype(np.float32),
        "query_mask": np.array([[True] * 3, [True, False, True]]),
        "value_mask": np.array([[False, True, True, False, True], [True] * 5]),
    }
    for identity, (name, options) in zip(IDS, CASES, strict=True):
        layer, inputs = make(name, options), list(arrays.values())[:4]
        call(layer, *inputs)
        layer.set_weights([random.normal(size=weight.shape).astype(np.float32) for weight in layer.weights])
        arrays |= {f"{identity}/weight{i}": weight for i, weight in enumerate(layer.get_weights())}
        arrays |= {f"{identity}/output{i}": output for i, output in enumerate(call(layer, *inputs))}
    np.savez_compressed(STORED, **arrays)


@pytest.mark.parametrize(("identity", "name", "options"), [(i, *case) for i, case in zip(IDS, CASES, strict=True)])
def test_outputs_equal_those_stored_under_tensorflow(identity, name, options):
    inputs, weights, outputs = stored(identity)
    layer = make(name, options)
    call(layer, *inputs)
    layer.set_weights(weights)
    for output, expected in zip(call(layer, *inputs), outputs, strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


def small_model(name, options, **keras_options):
    """A model of queries [B, T, 4] and values [B, S, 4], whose positions of zeros are masked."""
    query, value = (keras.Input([length, WIDTH]) for length in (T, S))
    values = keras.layers.Masking()(value)
    if name == "slots":
        slots = make(name, options, **keras_options)(values)
        context = keras.layers.MultiHeadAttention(2, WIDTH, dtype="float32")(query, slots)  # JAX: no float16 on CPUs
    else:
        context = make(name, options, **keras_options)(query, values)
    joined = keras.layers.Concatenate()([query, context])
    return keras.Model([query, value], keras.layers.Dense(WIDTH, dtype="float32")(joined))


def examples():
    """Returns 16 queries, values whose last position is padding in half of the examples, and targets."""
    random = np.random.default_rng(2)
    query, value = (random.normal(size=(16, length, WIDTH)).astype(np.float32) for length in (T, S))
    value[::2, -1] = 0
    return [query, value], np.tanh(query + value.sum(1, keepdims=True))


@pytest.mark.parametrize("name", ["memory", *map(slow, [*(name for name in MECHANISMS if name != "memory"), "slots"])])
def test_a_model_is_trained_saved_and_loaded(name, tmp_path):
    inputs, targets = examples()
    options = {"num_slots": 3} if name == "slots" else {}
    model = small_model(name, options)
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=True if BACKEND == "jax" else "auto")
    losses = model.fit(inputs, targets, batch_size=8, epochs=6, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", [*MECHANISMS, "slots"])
def test_half_precision_is_near_float32(name, policy):
    options = {"num_slots": 3} if name == "slots" else {}
    identity = IDS[CASES.index((name, {}))] if name != "slots" else "slots-3-windows"
    inputs, weights, outputs = stored(identity)
    layer = make(name, options, dtype=policy)
    call(layer, *inputs)
    layer.set_weights(weights)
    if name not in RECURRENT:  # rounding may move a hard stop
        np.testing.assert_allclose(call(layer, *inputs)[0], outputs[0], rtol=0.1, atol=0.1)
    if policy == "mixed_float16":
        model = small_model(name, options, dtype=policy)
        model.compile(keras.optimizers.SGD(0.01), "mse")
        assert np.isfinite(model.fit(*examples(), batch_size=8, verbose=0).history["loss"]).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_outputs_have_the_compute_dtype(name):
    """Also with options that are numbers of NumPy, such as 1 / np.sqrt(U), which JAX would take for float64."""
    known = MECHANISMS[name].constructor_arguments()
    layer = make(name, {key: 1 / np.sqrt(WIDTH) for key in ("scale", "noise") if key in known}, dtype="mixed_float16")
    (query, value, *_), *_ = stored(name)
    outputs = layer(query, value, return_attention_scores=True, training=True)
    assert [keras.backend.standardize_dtype(output.dtype) for output in outputs] == ["float16"] * 2


@pytest.mark.slow
def test_the_noise_of_each_training_step_is_new():
    model = small_model("monotonic", {})
    model.compile(keras.optimizers.SGD(0.0), "mse")
    losses = model.fit(*examples(), batch_size=16, epochs=2, shuffle=False, verbose=0).history["loss"]
    assert abs(losses[1] - losses[0]) > 1e-4


def test_a_seed_may_be_any_two_integers():
    """A custom decoder may pass a list, an array or a tensor as the seed."""
    (query, value, *_), *_ = stored("monotonic")
    layer = make("monotonic", {"test_mode": "soft"})
    layer.build(query.shape, value.shape)
    memory = layer.memorize(keras.ops.convert_to_tensor(value), keras.ops.ones([B, S], "bool"))
    query, state = keras.ops.convert_to_tensor(query[:, :1]), layer.initial_state(memory, 1)
    seeds = [[1, 2], np.array([1, 2]), keras.ops.convert_to_tensor([1, 2]), [1, 3]]
    scores = [keras.ops.convert_to_numpy(layer.score(query, memory, state, seed)[0]) for seed in seeds]
    assert [np.array_equal(scores[0], each) for each in scores] == [True, True, True, False]


@pytest.mark.parametrize("name", layers.__all__)
def test_the_example_of_a_docstring_prints_what_it_says(name):
    names = {"np": np, "keras": keras, **{each: getattr(layers, each) for each in layers.__all__}}
    text = getattr(layers, name).__doc__.partition("Example:")[2]
    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert example.examples
    assert not doctest.DocTestRunner().run(example).failed


def test_the_module_of_layers_names_every_mechanism():
    mechanisms = {mechanism.__name__ for mechanism in MECHANISMS.values()}
    assert {*layers.__all__} == {*mechanisms, "AttentionMechanism", "SlotMemory"}


@pytest.mark.skipif(BACKEND == "tensorflow", reason="on TensorFlow, the layers import it")
def test_the_layers_do_not_import_tensorflow():
    assert "tensorflow" not in sys.modules


if __name__ == "__main__":
    store()
