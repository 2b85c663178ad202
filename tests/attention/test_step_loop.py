"""Lists that collect a tensor in each step of a loop: compared with a loop in Python."""

import numpy as np
import pytest
import tensorflow as tf

from memattn.attention.tensorflow_ops import StepList


def powers(x: tf.Tensor, steps: int) -> tf.Tensor:
    """Returns x, x^2, ... of x [N] as [steps, N]."""
    collected = StepList(x.dtype, steps)

    def step(time, power, handle):
        return time + 1, power * x, collected.append(handle, power)

    _, _, handle = tf.while_loop(lambda time, *_: time < steps, step, (0, x, collected.empty))
    return collected.stack(handle)


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}, {"input_signature": [tf.TensorSpec([None])]}])
def test_stack_and_gradient_are_those_of_the_collected_tensors(options):
    @tf.function(**options)
    def values_and_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            values = powers(x, 3)
            loss = tf.reduce_sum(values * [[1.0], [10.0], [100.0]])
        return values, tape.gradient(loss, x)

    values, gradient = values_and_gradient(tf.constant([2.0, 3.0]))
    np.testing.assert_allclose(values, [[2, 3], [4, 9], [8, 27]])
    np.testing.assert_allclose(gradient, [1 + 20 * 2 + 300 * 4, 1 + 20 * 3 + 300 * 9])


def test_a_stack_has_the_static_shape_of_its_tensors():
    graph = tf.function(lambda x: powers(x, 3)).get_concrete_function(tf.TensorSpec([None, 7]))
    assert graph.output_shapes == [3, None, 7]


def test_compiled_gradient_has_no_copy_of_all_steps():
    """Guards the reason for lists: XLA copies an array of a loop whose gradient both reads and writes it."""

    @tf.function(jit_compile=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(powers(x, 5)))
        return tape.gradient(loss, x)

    text = gradient.experimental_get_compiler_ir(tf.zeros([11]))(stage="optimized_hlo")
    copies = [line for line in text.splitlines() if " copy(" in line and "f32[5,11]" in line.split("copy(")[0]]
    assert copies == []
