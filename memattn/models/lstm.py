"""An LSTM whose loop over time steps does only the recurrent work.

One matrix product before the loop handles all inputs, and one after the loop of gradients makes a kernel's gradient.
"""

import tensorflow as tf

from memattn import xla
from memattn.attention.ops import cast


class LSTM(tf.keras.layers.LSTM):
    """Keras' LSTM layer, for `return_sequences` and `return_state`.

    On a GPU, the layer runs cuDNN, as in Keras; on a CPU and in exports, `run_lstm`, whose loop XLA compiles with
    `jit_compile`. If the layer goes backwards, its outputs are in the order of computation, as in Keras.
    """

    def call(self, sequences, mask=None, jit_compile=False):
        if xla.uses_cudnn():
            return super().call(sequences, mask=mask)
        if self.go_backwards:
            sequences = tf.reverse(sequences, [1])
            mask = None if mask is None else tf.reverse(mask, [1])
        zeros = tf.zeros([tf.shape(sequences)[0], self.units], sequences.dtype)
        return list(run_lstm(self.cell, sequences, (zeros, zeros), mask, jit_compile=jit_compile))


def run_lstm(
    cell: tf.keras.layers.LSTMCell,
    inputs: tf.Tensor,
    state: tuple[tf.Tensor, tf.Tensor],
    mask: tf.Tensor | None = None,
    *,
    jit_compile: bool | None = False,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Runs an LSTM over inputs [B, S, E], from the initial state h and c [B, U].

    Where the mask [B, S] is false, a step keeps the previous h and c. With `jit_compile`, XLA compiles the loop; with
    None, the loop is a part of the caller's graph, which XLA may compile as a whole.

    Returns h after each step [B, S, U], and the last h and c.
    """
    dtype = inputs.dtype
    kernel, recurrent_kernel, bias = (cast(weight, dtype) for weight in (cell.kernel, cell.recurrent_kernel, cell.bias))
    batch_and_length = inputs.shape[:2]
    inputs = tf.transpose(inputs, [1, 0, 2])
    is_real = tf.ones_like(inputs[:, :, :1]) if mask is None else tf.cast(tf.transpose(mask), dtype)[:, :, None]
    gates = tf.tensordot(inputs, kernel, 1) + bias  # [S, B, 4U]
    run = {True: _run_compiled, False: _run_in_graph, None: _run}[jit_compile]
    hiddens, hidden, memory_cell = run(gates, recurrent_kernel, is_real, *state)
    # Without static shapes, XLA cannot compile the gradients of some attention mechanisms.
    outputs = tf.ensure_shape(tf.transpose(hiddens, [1, 0, 2]), [*batch_and_length, cell.units])
    return outputs, *(tf.ensure_shape(part, outputs.shape[::2]) for part in (hidden, memory_cell))


@tf.custom_gradient
def _run(gates: tf.Tensor, recurrent_kernel: tf.Tensor, is_real: tf.Tensor, hidden: tf.Tensor, memory_cell: tf.Tensor):
    """Runs S steps from the initial state h and c [B, U].

    Automatic differentiation would add to the gradient of the recurrent kernel in each step. Here, the loop keeps the
    gradients of the gates, and one product of matrices after it gives the gradient of the kernel, as in cuDNN.

    Args:
      gates: what the inputs contribute to the gates, in Keras' order i, f, c, o, [S, B, 4U].
      recurrent_kernel: [U, 4U].
      is_real: 1, or 0 for a step that keeps h and c, [S, B, 1].

    Returns h after each step [S, B, U], and the last h and c; then the function that computes the gradient.
    """
    dtype, steps = gates.dtype, tf.shape(gates)[0]
    first_hidden, first_memory_cell = hidden, memory_cell
    each_step = [_array_of(gates), _array_of(is_real)]

    def step(time, hidden, memory_cell, arrays):
        from_inputs, real = (array.read(time) for array in each_step)
        i, f, candidate, o = tf.split(from_inputs + tf.matmul(hidden, recurrent_kernel), 4, 1)
        i, f, candidate, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(candidate), tf.sigmoid(o)
        next_memory_cell = f * memory_cell + i * candidate
        hidden += real * (o * tf.tanh(next_memory_cell) - hidden)
        memory_cell += real * (next_memory_cell - memory_cell)
        values = hidden, memory_cell, tf.concat([i, f, candidate, o], 1)
        return (
            time + 1,
            hidden,
            memory_cell,
            [array.write(time, value) for array, value in zip(arrays, values, strict=True)],
        )

    loop = 0, hidden, memory_cell, [tf.TensorArray(dtype, steps) for _ in range(3)]
    _, hidden, memory_cell, arrays = tf.while_loop(lambda time, *_: time < steps, step, loop)
    hiddens, memory_cells, activations = (array.stack() for array in arrays)

    def gradient(hiddens_gradient, hidden_gradient, memory_cell_gradient):
        previous_hiddens = tf.concat([first_hidden[None], hiddens[:-1]], 0)
        previous_memory_cells = tf.concat([first_memory_cell[None], memory_cells[:-1]], 0)
        each_step = [
            _array_of(values)
            for values in (hiddens_gradient, activations, memory_cells, previous_memory_cells, is_real)
        ]

        def step_back(time, hidden_gradient, memory_cell_gradient, array):
            output_gradient, activation, memory_cell, previous_memory_cell, real = (
                array.read(time) for array in each_step
            )
            i, f, candidate, o = tf.split(activation, 4, 1)
            output = tf.tanh(memory_cell)
            hidden_gradient += output_gradient
            inner_gradient = memory_cell_gradient + hidden_gradient * o * (1 - output * output)
            parts = [
                inner_gradient * candidate * i * (1 - i),
                inner_gradient * previous_memory_cell * f * (1 - f),
                inner_gradient * i * (1 - candidate * candidate),
                hidden_gradient * output * o * (1 - o),
            ]
            gates_gradient = real * tf.concat(parts, 1)
            through_gates = tf.matmul(gates_gradient, recurrent_kernel, transpose_b=True)
            hidden_gradient = through_gates + (1 - real) * hidden_gradient
            memory_cell_gradient += real * (inner_gradient * f - memory_cell_gradient)
            return time - 1, hidden_gradient, memory_cell_gradient, array.write(time, gates_gradient)

        loop = steps - 1, hidden_gradient, memory_cell_gradient, tf.TensorArray(dtype, steps)
        _, hidden_gradient, memory_cell_gradient, array = tf.while_loop(lambda time, *_: time >= 0, step_back, loop)
        gates_gradient = array.stack()
        kernel_gradient = tf.tensordot(previous_hiddens, gates_gradient, [[0, 1], [0, 1]])
        return gates_gradient, kernel_gradient, None, hidden_gradient, memory_cell_gradient

    return (hiddens, hidden, memory_cell), gradient


# TensorFlow never frees a graph that has a custom gradient. With functions for `_run` alone, that is a small graph for
# each shape, and not the graph of a whole model.
_run_in_graph = tf.function(_run, autograph=False)
_run_compiled = tf.function(_run, autograph=False, jit_compile=True)


def _array_of(tensor: tf.Tensor) -> tf.TensorArray:
    """Returns an array of the elements of the first axis."""
    return tf.TensorArray(tensor.dtype, tf.shape(tensor)[0]).unstack(tensor)
