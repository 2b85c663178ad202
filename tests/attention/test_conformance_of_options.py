"""Every conformance test, for options of the mechanisms that the short tests do without."""

import inspect

import numpy as np
import pytest
import tensorflow as tf
import test_conformance
import test_keras
import test_layers
from conftest import free
from test_conformance import FAMILY, SOURCES, V, arrays, identify, make_model, optimizer, padded  # noqa: F401

from memattn import attention
from memattn.config import TrainingConfig
from memattn.models.neural_gpu.model import KINDS
from memattn.training.step import TrainingStep

MONOTONIC = ("monotonic", "mocha", "matcha")
VARIANTS = [
    ("memory", {"num_slots": 1}),
    ("memory", {"num_slots": 3, "encoder_scoring": "softmax", "decoder_scoring": "sigmoid"}),
    ("memory", {"num_slots": 3, "encoder_scoring": "sigmoid", "decoder_scoring": "sigmoid"}),
    ("windowed_memory", {"num_slots": 3, "read_units": 5}),
    ("windowed_memory", {"num_slots": 3, "read": "address"}),
    ("memory_variant", {"num_slots": 3, "encoder_normalize": "time"}),
    ("memory_variant", {"num_slots": 3, "encoder_scoring": "softmax_time", "read": "additive"}),
    ("memory_variant", {"num_slots": 3, "vote_scale": 2.0, "position_windows": True}),
    ("memory", {"num_slots": 3, "position_encoding": True, "renormalize": "sum"}),
    *((name, {}) for name in FAMILY if name not in MONOTONIC),
    ("linear", {"projection": 3, "gated": True, "normalize": "none"}),
    ("monotonic", {"offset": 0.0}),  # hard, and stops here and there
    ("mocha", {"offset": 0.1, "chunk_size": 3}),
    ("mocha", {"offset": 0.1, "chunk_size": None}),
    ("matcha", {"offset": 0.1}),
    ("mocha", {"test_mode": "soft", "chunk_size": 3}),
    ("matcha", {"test_mode": "soft"}),
]
OF_LAYERS = [
    *VARIANTS,
    ("bahdanau", {"cache_keys": False}),
    ("memory_variant", {"num_slots": 2, "encoder_scoring": "sigmoid", "decoder_scoring": "sigmoid", "vote_scale": 2.0}),
    ("nested_memory", {"num_slots": 3}),
    ("memory", {"num_slots": 3, "position_encoding": True, "renormalize": "mean"}),
    ("feed_forward", {"weighted": False}),
    ("local_m", {"window": 1}),
    ("local_p", {"window": 2}),
    ("monotonic", {"test_mode": "soft"}),
]
OF_ADDONS = [name for name in attention.MECHANISMS if name.startswith("tfa_")]
RNNSEARCH = {"decoder": "rnnsearch", "encoder": "gru"}
SWITCHED = [
    *((name, {}, {"input_feeding": False}) for name in ("none", "bahdanau", *OF_ADDONS)),
    *((name, {}, RNNSEARCH) for name in ("none", "memory", "bahdanau", "monotonic")),
    ("bahdanau", {}, {"encoder": "gru", "layers": 2, "bridge": "dense"}),
]


@pytest.fixture(scope="module", params=[*((*variant, {}) for variant in VARIANTS), *SWITCHED], ids=identify)
def model(request):
    name, options, switches = request.param
    yield make_model(name, options, **switches)
    test_conformance.searcher.cache_clear()
    free()


@pytest.mark.parametrize("name", FAMILY)
def test_a_mechanism_of_the_family_trains_by_default(name):
    test_conformance.test_every_mechanism_trains_by_default(name)


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.usefixtures("optimizer")
def test_batches_at_once_of_the_family_share_no_temporary_variable(name):
    test_conformance.test_batches_at_once_share_no_temporary_variable(name)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_a_mechanism_with_options_is_an_ordinary_layer(name, options):
    test_conformance.test_mechanisms_serialize(name, options)
    test_keras.test_a_call_is_what_the_decoder_reads(name, options)
    test_keras.test_keras_own_layer_test(name, options)
    test_keras.test_a_layer_of_mixed_precision_takes_states_of_float32(name, options, "mixed_float16")
    test_keras.test_a_layer_of_mixed_precision_takes_states_of_float32(name, options, "mixed_bfloat16")


def assert_trains_and_decodes(model):
    """Training steps on a batch that padding fills up, and a search; weights stay in float32."""
    precision, batch, before = model.dtype_policy.name, padded([*SOURCES, []]), arrays(model)
    config = TrainingConfig(batch_size=5, jit_compile=False, precision=precision)
    step = TrainingStep(model, config, tf.distribute.get_strategy())
    if precision == "mixed_float16":
        step.state[0].assign(2.0**8)  # no gradient overflows
    for update in range(2):
        assert np.isfinite(step([(batch.numpy(), batch.numpy())], update, 0.01)).all()
    assert {weight.dtype for weight in arrays(model)} == {np.dtype("float32")}
    assert any((old != new).any() for old, new in zip(before, arrays(model), strict=True))
    for row in test_conformance.search(model, SOURCES, width=7, beam_size=2):
        assert len(row) == 2
    test_conformance.searcher.cache_clear()


FEW_BITS = ("mixed_float16", "mixed_bfloat16")
PRECISE = [
    *((name, options, {}) for name, options in OF_LAYERS),
    *((name, {}, switches) for name in ("memory", "local_p", "mocha") for switches in (RNNSEARCH, {"layers": 2})),
    *((name, {}, {"input_feeding": False, "mix": False}) for name in ("memory", "local_p", "mocha")),
]


@pytest.mark.parametrize("made", PRECISE, ids=identify)
def test_a_model_works_in_few_bits(made):
    name, options, switches = made
    for precision in FEW_BITS:
        test_conformance.assert_close_to_full_precision(make_model(name, options, dtype=precision, **switches))


@pytest.mark.parametrize("precision", FEW_BITS)
@pytest.mark.parametrize("name", test_layers.NAMES)
def test_a_model_trains_and_decodes_in_few_bits(name, precision):
    assert_trains_and_decodes(make_model(name, {}, dtype=precision))


@pytest.mark.parametrize("precision", FEW_BITS)
@pytest.mark.parametrize(
    ("kind", "cell"), [("neural_gpu", "cgru"), ("markovian", "dngpu"), ("extended", "residual"), ("extended", "cgru")]
)
def test_a_neural_gpu_trains_and_decodes_in_few_bits(kind, cell, precision):
    tf.keras.utils.set_random_seed(7)
    sizes = {"vocabulary_size": V, "max_source_length": 6, "layers": 1, "units": 8, "width": 2}
    model = KINDS[kind](**sizes, cell=cell, dropout=0.1, dtype=precision)
    test_conformance.assert_close_to_full_precision(model)
    assert_trains_and_decodes(model)


@pytest.fixture(params=[case for case in OF_LAYERS if case not in test_layers.CASES], ids=test_layers.identify)
def case(request):
    return request.param


globals().update(
    (name, test)
    for module in (test_conformance, test_layers)
    for name, test in vars(module).items()
    if name.startswith("test_") and {"model", "case"} & set(inspect.signature(test).parameters)
)


@pytest.mark.parametrize("name", FAMILY)
def test_a_functional_model_with_a_mechanism_of_the_family_learns(name):
    """With lengths that are not known when the model is made; compiled where Keras does so by itself."""
    test_keras.test_a_functional_model_learns(name, {}, "auto" if test_keras.KERAS_3 else False)
