"""Every mechanism is an ordinary Keras layer: shapes, functional models, `.keras` files, TensorFlow Lite."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.mechanisms import CASES, EVERY_CASE, EVERY_NAME, KERAS_3, SIZES, B, D, S, T, identify, make, random
from helpers.models import make_model
from helpers.repository import run_python

from memattn import attention

in_keras_3 = pytest.mark.skipif(not KERAS_3, reason="Keras 2 has no such test, and converts otherwise")


@in_keras_3
@pytest.mark.parametrize("name", EVERY_NAME)
def test_mechanisms_pass_the_layer_test_of_keras(name):
    """The test of Keras checks the config, building by shapes, symbolic calls and mixed precision."""
    from keras.src import testing  # noqa: PLC0415

    mechanism = attention.mechanism(name)
    accepted = mechanism.constructor_arguments()
    testing.TestCase().run_layer_test(
        mechanism,
        init_kwargs={key: size for key, size in SIZES.items() if key in accepted},
        input_shape={"query_shape": (B, T, D), "value_shape": (B, S, D)},
        expected_output_shape=(B, T, make(name, {}).context_size(D)),
        supports_masking=True,
        run_training_check=False,  # this check would pass all inputs as a single dictionary
    )


@pytest.mark.parametrize(("name", "options"), EVERY_CASE)
def test_a_call_equals_memorizing_and_scoring_step_by_step(name, options):
    query, value = tf.constant(random(B, T, D)), tf.constant(random(B, S, D, seed=2))
    mask = tf.constant([[True] * S, [True, True, False, False, False]])
    layer = make(name, options)
    context, weights = layer(query, value, value_mask=mask, return_attention_scores=True)
    memory = layer.memorize(value, mask)
    scores, state = [], layer.initial_state(memory, 1)
    for time in range(T):
        scores_of_step, state = layer.score(query[:, time : time + 1], memory, state)
        scores.append(scores_of_step)
    scores = tf.concat(scores, 1)
    np.testing.assert_allclose(context, tf.matmul(scores, memory["values"]), atol=1e-6)
    np.testing.assert_allclose(weights, layer.alignments(memory, scores), atol=1e-6)
    assert context.shape == (B, T, layer.context_size(D))
    assert weights.shape == (B, T, S)
    np.testing.assert_array_equal(weights[1, :, 2:], np.zeros((T, 3)))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (([2, 4], [2, 5, 6]), r"query: expected \[B, T, U\], not shape \(2, 4\)"),
        (([2, 3, 4], [2, 6]), r"value: expected \[B, S, D\], not shape \(2, 6\); .*return_sequences=True"),
        (([2, 3, 4], [1, 5, 6]), r"query \(2, 3, 4\) and value \(1, 5, 6\): batches of different sizes"),
        (([2, 3, 4], [2, 5, 6], [2, 1, 5]), r"value_mask: expected \[B, S\], not shape \(2, 1, 5\); from lengths"),
        (([2, 3, 4], [2, 5, 6], [2, 4]), r"value_mask: expected \[B, S\] = \(2, 5\), not shape \(2, 4\)"),
    ],
)
def test_wrong_shapes_are_refused(shapes, message):
    query, value, *masks = map(tf.ones, shapes)
    with pytest.raises(ValueError, match=message):
        make("memory", {})(query, value, **({"value_mask": masks[0]} if masks else {}))


def test_ragged_values_and_values_of_unknown_width_are_refused():
    with pytest.raises(ValueError, match="value: ragged"):
        make("memory", {})(tf.zeros([2, 3, D]), tf.RaggedTensor.from_row_lengths(tf.zeros([4, D]), [1, 3]))
    with pytest.raises(ValueError, match="value: the last axis must have a known width"):
        make("memory", {})(tf.keras.Input([None, D]), tf.keras.Input([None, None]))


def test_keras_compiles_mechanisms_that_are_not_recurrent():
    compiled = {name: make(name, {}).supports_jit for name in ("memory", "local_m", "local_p", "monotonic")}
    assert compiled == {"memory": True, "local_m": False, "local_p": True, "monotonic": False}


@pytest.mark.slow
def test_models_are_loaded_in_a_new_process(tmp_path):
    """Importing the classes registers them with Keras."""
    states = tf.keras.Input([None, D])
    tf.keras.Model(states, make("memory", {})(states, states)).save(tmp_path / "layer.keras")
    make_model("memory", {}, layers=2, tie_embeddings="all").save(tmp_path / "model.keras")
    code = "import sys, memattn, tensorflow as tf; [getattr(memattn, name) for name in dir(memattn)]; "
    code += "[tf.keras.models.load_model(path) for path in sys.argv[1:]]"
    run_python("-c", code, tmp_path / "layer.keras", tmp_path / "model.keras")


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


@in_keras_3
@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=identify(case), marks=mark_of(case)) for case in CONVERTED])
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated:UserWarning")
def test_a_model_in_tensorflow_lite_computes_the_same(case):
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


@in_keras_3
@pytest.mark.slow
@pytest.mark.parametrize("case", RECURRENT, ids=identify)
def test_a_recurrent_mechanism_converts_to_tensorflow_lite_with_operations_of_tensorflow(case):
    converter = tf.lite.TFLiteConverter.from_keras_model(model_of(case))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    converter._experimental_lower_tensor_list_ops = False
    assert converter.convert()
