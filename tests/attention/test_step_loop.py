"""A loop over steps, whose outputs are collected: compared with a loop in Python."""

import numpy as np
import tensorflow as tf

from memattn.attention.ops import run_loop


def powers(x: tf.Tensor, steps: int) -> tf.Tensor:
    """Returns x, x^2, ... of x [B, F] as [B, steps, F]."""

    def step(time, inputs, power):
        return [power[:, None]], power * x

    (outputs,) = run_loop(step, x, tf.zeros([tf.shape(x)[0], steps]), num_outputs=1, dtype=x.dtype)
    return outputs


def test_outputs_and_gradient_are_those_of_the_steps():
    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def values_and_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            values = powers(x, 3)
            loss = tf.reduce_sum(values * [[1.0], [10.0], [100.0]])
        return values, tape.gradient(loss, x)

    values, gradient = values_and_gradient(tf.constant([[2.0, 3.0]]))
    np.testing.assert_allclose(values, [[[2, 3], [4, 9], [8, 27]]])
    np.testing.assert_allclose(gradient, [[1 + 20 * 2 + 300 * 4, 1 + 20 * 3 + 300 * 9]])


def test_compiled_gradient_has_no_copy_of_all_steps():
    """Guards the reason for lists: XLA copies an array of a loop whose gradient both reads and writes it."""

    @tf.function(jit_compile=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(powers(x, 5)))
        return tape.gradient(loss, x)

    text = gradient.experimental_get_compiler_ir(tf.zeros([1, 11]))(stage="optimized_hlo")
    in_loops = text.partition("ENTRY")[0].splitlines()
    copies = [line for line in in_loops if " copy(" in line and "f32[5,1,11]" in line.split("copy(")[0]]
    assert copies == []
