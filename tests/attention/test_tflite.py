"""Mechanisms that are not recurrent convert to TensorFlow Lite with built-in operations, and compute the same there."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.mechanisms import CASES, KERAS_3, D, S, T, identify, make, random

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not KERAS_3, reason="Keras 2 converts otherwise")]
MASK = np.array([[True, True, False, True, False]])


def has_independent_steps(case):
    """Whether a mechanism's decoder steps do not depend on each other."""
    return make(*case).supports_jit


CONVERTED = [case for case in CASES if case[0] != "none" and has_independent_steps(case)]
RECURRENT = [case for case in CASES if not case[1] and not has_independent_steps(case)]


def mark_of(case):
    """Two mechanisms stand for the others, which take long."""
    return () if case in [("memory", {}), ("bahdanau", {})] else pytest.mark.long


def model_of(case):
    inputs = tf.keras.Input([T, D]), tf.keras.Input([S, D]), tf.keras.Input([S], dtype="bool")
    query, value, mask = inputs
    return tf.keras.Model(inputs, make(*case)(query, value, value_mask=mask, return_attention_scores=True))


@pytest.mark.parametrize("case", [pytest.param(case, id=identify(case), marks=mark_of(case)) for case in CONVERTED])
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated:UserWarning")
def test_a_converted_model_computes_the_same(case):
    model, inputs = model_of(case), [random(1, T, D), random(1, S, D, seed=2), MASK]
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
    converter = tf.lite.TFLiteConverter.from_keras_model(model_of(case))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    converter._experimental_lower_tensor_list_ops = False
    assert converter.convert()
