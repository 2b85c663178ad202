"""Attention mechanisms and their options, as parameters of conformance tests; small layers of them, and inputs.

Tests of the common mechanisms are quick, those of all others slow. A mechanism chosen by --mechanism replaces all.
"""

import importlib.util
import itertools

import numpy as np
import pytest
import tensorflow as tf
from studies.mechanisms import MEMORY_VARIANT, NESTED_MEMORY

from helpers.marks import CHOSEN, slow
from memattn import attention
from memattn.attention.ops import masked_softmax

STUDIED = (NESTED_MEMORY, MEMORY_VARIANT)
_RARER = (
    *("windowed_memory", "stretch_means", "latents", *STUDIED),
    *("feed_forward", "linear", "location", "local_m", "local_p", "monotonic", "mocha", "matcha"),
)
ADDONS_NAMES = [
    f"helpers.addons:Addons{name}Attention"
    for name in ("Bahdanau", "Luong")
    if importlib.util.find_spec("tensorflow_addons")  # the extra `addons`
]
QUICK_NAMES = CHOSEN or [*(name for name in attention.MECHANISMS if name not in _RARER), *ADDONS_NAMES]
SLOW_NAMES = [] if CHOSEN else list(_RARER)

# Each case is a name and its options.
_QUICK_OPTIONS = [
    ("bahdanau", {"cache_keys": False}),
    ("memory", {"num_slots": 3, "position_encoding": True, "renormalize": "mean", "encoder_scoring": "sigmoid"}),
]
QUICK_CASES = [*((name, {}) for name in QUICK_NAMES), *([] if CHOSEN else _QUICK_OPTIONS)]
_SLOW_CASES = [
    ("memory", {"num_slots": 1}),
    ("memory", {"num_slots": 3, "encoder_scoring": "softmax", "decoder_scoring": "sigmoid"}),
    ("memory", {"num_slots": 3, "encoder_scoring": "sigmoid", "decoder_scoring": "sigmoid"}),
    ("windowed_memory", {"num_slots": 3, "read_units": 5}),
    ("windowed_memory", {"num_slots": 3, "read": "address"}),
    ("stretch_means", {"num_slots": 3}),
    ("stretch_means", {"num_slots": 3, "read": "address"}),
    ("latents", {"num_slots": 3}),
    ("latents", {"num_slots": 3, "read": "address"}),
    (MEMORY_VARIANT, {"num_slots": 3, "encoder_normalize": "time"}),
    (MEMORY_VARIANT, {"num_slots": 3, "encoder_scoring": "softmax_time", "free_windows": True, "read": "additive"}),
    (MEMORY_VARIANT, {"num_slots": 3, "vote_scale": 2.0, "position_windows": True}),
    ("memory", {"num_slots": 3, "position_encoding": True, "renormalize": "sum"}),
    *((name, {}) for name in _RARER if name not in ("monotonic", "mocha", "matcha")),
    ("linear", {"projection": 3, "gated": True, "normalize": "none"}),
    ("monotonic", {"offset": 0.0}),  # in hard mode: queries stop at many different positions
    ("mocha", {"offset": 0.1, "chunk_size": 3}),
    ("mocha", {"offset": 0.1, "chunk_size": None}),
    ("matcha", {"offset": 0.1}),
    ("mocha", {"test_mode": "soft", "chunk_size": 3}),
    ("matcha", {"test_mode": "soft"}),
]
SLOW_CASES = [] if CHOSEN else _SLOW_CASES
_LAYER_OPTIONS = [
    *_SLOW_CASES,
    ("bahdanau", {"cache_keys": False}),
    (NESTED_MEMORY, {"num_slots": 3}),
    ("memory", {"num_slots": 3, "position_encoding": True, "renormalize": "mean"}),
    ("memory", {"num_slots": 3, "position_encoding": True, "renormalize": "none"}),
    ("feed_forward", {"weighted": False}),
    ("local_m", {"window": 1}),
    ("local_p", {"window": 2}),
    ("monotonic", {"test_mode": "soft"}),
]
# A mechanism of tensorflow-addons keeps its memory as an attribute, so it is no ordinary layer.
LAYER_NAMES = CHOSEN or [*attention.MECHANISMS, *STUDIED]
LAYER_CASES = [
    *((name, {}) for name in LAYER_NAMES),
    *([] if CHOSEN else [(name, options) for name, options in _LAYER_OPTIONS if options]),
]

# Each model is the name of a mechanism, its options, and options of the model around it.
RNNSEARCH = {"decoder": "rnnsearch", "encoder": "gru"}
_QUICK_SWITCHES = [
    ("memory", {}, {"input_feeding": False}),
    ("memory", {}, {"layers": 2, "mix": False}),
    ("least_seen", {}, {"input_feeding": False}),
]
# One model for each way in which searches differ: sizes of the memory, scores by position, states, parts around.
_SLOW_REPRESENTATIVES = [
    ("windowed_memory", {"num_slots": 3, "read_units": 5}, {}),
    (MEMORY_VARIANT, {"num_slots": 3, "vote_scale": 2.0, "position_windows": True}, {}),
    ("local_m", {}, {}),
    ("mocha", {"offset": 0.1, "chunk_size": 3}, {}),
    ("monotonic", {}, RNNSEARCH),
    ("bahdanau", {}, {"encoder": "gru", "decoder": "gru", "layers": 2}),
    ("none", {}, {"input_feeding": False}),
]
_OTHER_SLOW_MODELS = [
    ("memory", {"num_slots": 1}, {}),
    ("memory", {}, {"decoder": "gru", "input_feeding": False}),
    *((name, {"num_slots": 3}, {}) for name in ("stretch_means", "latents")),
    *((name, {}, {}) for name in (NESTED_MEMORY, "feed_forward", "location", "local_p")),
    ("linear", {"projection": 3, "gated": True, "normalize": "none"}, {}),
    ("matcha", {"test_mode": "soft"}, {}),
    *((name, {}, {"input_feeding": False}) for name in ADDONS_NAMES),
    ("bahdanau", {}, {"encoder": "gru", "layers": 2, "bridge": "dense"}),
    ("bahdanau", {}, {"encoder": "cgru", "layers": 2, "bridge": "dense"}),
]
_QUICK_MODELS = [*((*case, {}) for case in QUICK_CASES), *([] if CHOSEN else _QUICK_SWITCHES)]


def identify(case):
    """The id of a case or of a model in the names of tests."""
    name, options, *model_options = case
    return "-".join([name, *map(str, options.values()), *itertools.chain(*model_options)])


EVERY_NAME = [*QUICK_NAMES, *map(slow, SLOW_NAMES)]
EVERY_CASE = [
    *(pytest.param(*case, id=identify(case)) for case in QUICK_CASES),
    *(pytest.param(*case, id=identify(case), marks=pytest.mark.slow) for case in SLOW_CASES),
]
XLA_MODELS = [*([] if CHOSEN else _SLOW_REPRESENTATIVES), *((name, {}, {}) for name in CHOSEN or ADDONS_NAMES)]
REPRESENTATIVE_MODELS = [*_QUICK_MODELS, *([] if CHOSEN else map(slow, _SLOW_REPRESENTATIVES))]
EVERY_MODEL = [*REPRESENTATIVE_MODELS, *([] if CHOSEN else map(slow, _OTHER_SLOW_MODELS))]


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


KERAS_3 = not hasattr(tf.keras, "__internal__")
B, T, S, D = 2, 3, 5, 8  # queries are as wide as values, because luong_dot requires it
SIZES = {"units": D, "max_source_length": S}


def make(mechanism, options, /, **kwargs):
    """An attention layer; each call gives the same weights."""
    tf.keras.utils.set_random_seed(3)
    return attention.build(mechanism, {**options, **kwargs}, **SIZES)


def random(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def array(value):
    return tf.convert_to_tensor(value).numpy()


def random_weights(layer):
    """The random weights of a layer, flattened: those that hold more than zeros and ones."""
    return [values for values in (array(weight).ravel() for weight in layer.weights) if len(np.unique(values)) > 2]


def assert_all_different(weights):
    for first, second in itertools.combinations(weights, 2):
        assert first.shape != second.shape or np.abs(first - second).max() > 1e-3
