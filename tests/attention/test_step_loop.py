"""The gradient of a loop over steps does not copy the outputs of all steps in each of them."""

import tensorflow as tf

from memattn.attention.ops import run_loop


def test_compiled_gradient_has_no_copy_of_all_steps():
    """Guards the reason for lists: XLA copies an array of a loop whose gradient both reads and writes it."""

    @tf.function(jit_compile=True)
    def gradient(x):
        def step(time, inputs, power):
            return [power[:, None]], power * x

        with tf.GradientTape() as tape:
            tape.watch(x)
            (powers,) = run_loop(step, x, tf.zeros([1, 5]), num_outputs=1, dtype=x.dtype)  # x, x^2, ... [1, 5, F]
            loss = tf.reduce_sum(tf.sin(powers))
        return tape.gradient(loss, x)

    text = gradient.experimental_get_compiler_ir(tf.zeros([1, 11]))(stage="optimized_hlo")
    in_loops = text.partition("ENTRY")[0].splitlines()
    copies = [line for line in in_loops if " copy(" in line and "f32[5,1,11]" in line.split("copy(")[0]]
    assert copies == []
