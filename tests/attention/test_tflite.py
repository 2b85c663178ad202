"""Mechanisms that are not recurrent convert to TensorFlow Lite with built-in operations, and compute the same there."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.mechanisms import KERAS_3, LAYER_CASES, D, S, T, identify, make, random

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not KERAS_3, reason="Keras 2 converts otherwise")]
MASK = np.array([[True, True, False, True, False]])


def has_independent_steps(case):
    """Whether a mechanism's decoder steps do not depend on each other."""
    return make(*case).supports_jit


CONVERTED = [case for case in LAYER_CASES if case[0] != "none" and has_independent_steps(case)]
RECURRENT = [case for case in LAYER_CASES if not case[1] and not has_independent_steps(case)]


def mark_of(case):
    """Two mechanisms stand for the others, which take long."""
    return () if case in [("memory", {}), ("bahdanau", {})] else pytest.mark.long


def model_of(case, masked):
    query, value, mask = tf.keras.Input([T, D]), tf.keras.Input([S, D]), tf.keras.Input([S], dtype="bool")
    masks = {"value_mask": mask} if masked else {}
    outputs = make(*case)(query, value, return_attention_scores=True, **masks)
    return tf.keras.Model([query, value, *masks.values()], outputs)


@pytest.mark.parametrize(
    ("case", "masked"),
    [
        *(pytest.param(case, True, id=f"{identify(case)}-masked", marks=mark_of(case)) for case in CONVERTED),
        *(pytest.param(case, False, id=identify(case), marks=mark_of(case)) for case in CONVERTED if not case[1]),
    ],
)
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated:UserWarning")
def test_a_converted_model_computes_the_same(case, masked):
    model = model_of(case, masked)
    inputs = [random(1, T, D), random(1, S, D, seed=2), MASK][: len(model.inputs)]
    interpreter = tf.lite.Interpreter(model_content=tf.lite.TFLiteConverter.from_keras_model(model).convert())
    interpreter.allocate_tensors()
    inputs_by_shape = {array.shape: array for array in inputs}
    for details in interpreter.get_input_details():
        interpreter.set_tensor(details["index"], inputs_by_shape[tuple(details["shape"])])
    interpreter.invoke()
    outputs = [interpreter.get_tensor(output["index"]) for output in interpreter.get_output_details()]
    expected = {tuple(output.shape): output for output in model(inputs)}
    assert len(outputs) == len(expected) == 2
    for output in outputs:
        np.testing.assert_allclose(output, expected[output.shape], atol=1e-5)


@pytest.mark.parametrize("case", RECURRENT, ids=identify)
def test_a_recurrent_mechanism_converts_with_operations_of_tensorflow(case):
    converter = tf.lite.TFLiteConverter.from_keras_model(model_of(case, False))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    converter._experimental_lower_tensor_list_ops = False
    assert converter.convert()
