"""Every conformance test, for options of the mechanisms that the short tests do without."""

import inspect

import pytest
import test_conformance
import test_keras
import test_layers
from conftest import free
from test_conformance import FAMILY, identify, make_model, optimizer  # noqa: F401 (a fixture)

from memattn import attention

MONOTONIC = ("monotonic", "mocha", "matcha")
VARIANTS = [
    ("memory", {"num_slots": 1}),
    ("memory", {"num_slots": 3, "encoder_scoring": "softmax", "decoder_scoring": "sigmoid"}),
    ("memory", {"num_slots": 3, "encoder_scoring": "sigmoid", "decoder_scoring": "sigmoid"}),
    ("memory", {"num_slots": 3, "encoder_normalize": "time"}),
    ("memory", {"num_slots": 3, "encoder_scoring": "softmax_time", "read": "content"}),
    ("memory", {"num_slots": 3, "encoder_scoring": "softmax_time", "read": "additive", "position_windows": True}),
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
    ("memory", {"num_slots": 2, "encoder_scoring": "sigmoid", "decoder_scoring": "sigmoid", "vote_scale": 2.0}),
    ("memory", {"num_slots": 3, "nested": True}),
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
