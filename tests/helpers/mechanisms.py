"""Attention mechanisms and their options, as parameters of conformance tests; small layers of them, and inputs.

Tests of the common mechanisms are quick, those of all others slow. A mechanism chosen by --mechanism replaces all.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from studies.mechanisms import MEMORY_VARIANT, NESTED_MEMORY

from helpers.marks import CHOSEN, slow
from memattn import attention

_QUICK_NAMES = (*CHOSEN, "none", "bahdanau", "luong", "luong_dot", "memory")
NAMES = CHOSEN or [*attention.MECHANISMS, NESTED_MEMORY, MEMORY_VARIANT]

# Each case is a name and its options.
_OPTIONS = [
    ("bahdanau", {"cache_keys": False}),
    ("memory", {"num_slots": 3, "position_encoding": True, "renormalize": "mean", "encoder_scoring": "sigmoid"}),
    ("memory", {"num_slots": 1}),
    ("memory", {"num_slots": 3, "position_encoding": True, "renormalize": "sum", "decoder_scoring": "sigmoid"}),
    ("windowed_memory", {"num_slots": 3, "read_units": 5}),
    *((name, {"num_slots": 3, "read": "address"}) for name in ("windowed_memory", "stretch_means", "latents")),
    (NESTED_MEMORY, {"num_slots": 3}),
    (MEMORY_VARIANT, {"num_slots": 3, "encoder_normalize": "time"}),
    (MEMORY_VARIANT, {"num_slots": 3, "encoder_scoring": "softmax_time", "free_windows": True, "read": "additive"}),
    (MEMORY_VARIANT, {"num_slots": 3, "vote_scale": 2.0, "position_windows": True}),
    ("feed_forward", {"weighted": False}),
    ("linear", {"projection": 3, "gated": True, "normalize": "none"}),
    ("local_m", {"window": 1}),
    ("local_p", {"window": 2}),
    ("monotonic", {"offset": 0.0}),  # in hard mode: queries stop at many different positions
    ("monotonic", {"test_mode": "soft"}),
    ("mocha", {"offset": 0.1, "chunk_size": 3}),
    ("mocha", {"offset": 0.1, "chunk_size": None}),
    ("mocha", {"test_mode": "soft", "chunk_size": 3}),
    ("matcha", {"offset": 0.1}),
    ("matcha", {"test_mode": "soft"}),
]
CASES = [*((name, {}) for name in NAMES), *([] if CHOSEN else _OPTIONS)]

# Each model is the name of a mechanism, its options, and options of the model around it.
RNNSEARCH = {"decoder": "rnnsearch", "encoder": "gru"}
_SEARCHED_QUICKLY = [
    ("memory", {"num_slots": 3, "position_encoding": True, "renormalize": "mean", "encoder_scoring": "sigmoid"}, {}),
    ("least_seen", {}, {"input_feeding": False}),
]
_QUICK_MODELS = [
    ("none", {}, {}),
    ("bahdanau", {}, {}),
    ("memory", {}, {"input_feeding": False}),
    ("memory", {}, {"layers": 2, "mix": False}),
]
# One model for each way in which searches differ: sizes of the memory, scores by position, states, parts around.
_SLOW_REPRESENTATIVES = [
    (MEMORY_VARIANT, {"num_slots": 3, "vote_scale": 2.0, "position_windows": True}, {}),
    ("local_m", {}, {}),
    ("mocha", {"offset": 0.1, "chunk_size": 3}, {}),
    ("monotonic", {}, RNNSEARCH),
    ("bahdanau", {}, {"encoder": "gru", "decoder": "gru", "layers": 2}),
]
_OTHER_SLOW_MODELS = [
    ("memory", {"num_slots": 1}, {}),
    ("windowed_memory", {"num_slots": 3, "read_units": 5}, {}),
    ("stretch_means", {"num_slots": 3}, {"decoder": "gru", "input_feeding": False}),
    ("latents", {"num_slots": 3}, {"encoder": "cgru", "layers": 2, "bridge": "dense"}),
    *((name, {}, {}) for name in ("luong", "luong_dot", NESTED_MEMORY, "feed_forward", "location", "local_p")),
    ("linear", {"projection": 3, "gated": True, "normalize": "none"}, {}),
    ("matcha", {"test_mode": "soft"}, {}),
]


def identify(case):
    """The id of a case or of a model in the names of tests."""
    name, options, *model_options = case
    return "-".join([name, *map(str, options.values()), *itertools.chain(*model_options)])


def _marked(case):
    """A case as a parameter, which is slow unless the mechanism is common."""
    return pytest.param(*case, id=identify(case), marks=() if case[0] in _QUICK_NAMES else pytest.mark.slow)


EVERY_NAME = [name if name in _QUICK_NAMES else slow(name) for name in NAMES]
EVERY_CASE = list(map(_marked, CASES))
XLA_MODELS = [(name, {}, {}) for name in CHOSEN] or _SLOW_REPRESENTATIVES
REPRESENTATIVE_MODELS = [*_SEARCHED_QUICKLY, *map(slow, _SLOW_REPRESENTATIVES)]
EVERY_MODEL = [*_SEARCHED_QUICKLY, *_QUICK_MODELS, *map(slow, [*_SLOW_REPRESENTATIVES, *_OTHER_SLOW_MODELS])]
if CHOSEN:
    REPRESENTATIVE_MODELS = EVERY_MODEL = XLA_MODELS


KERAS_3 = not hasattr(tf.keras, "__internal__")
B, T, S, D = 2, 3, 5, 8  # queries are as wide as values, because luong_dot requires it
SIZES = {"units": D, "max_source_length": S}


def make(mechanism, options, /, **kwargs):
    """An attention layer; each call gives the same weights."""
    tf.keras.utils.set_random_seed(3)
    return attention.build(mechanism, {**options, **kwargs}, **SIZES)


def random(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
