"""An emulation of cuDNN on a CPU: LSTMs of Keras 3 compute, and refuse, the same as on a GPU."""

import sys

import tensorflow as tf

from memattn import xla


def cudnn_rnn(*, input, input_h, input_c, params, is_training, rnn_mode, sequence_lengths, time_major):
    """Replaces tf.raw_ops.CudnnRNNV3: outputs [B, T, U], 0 past each row's length, and the final h and c [B, 1, U].

    As with cuDNN, every row must have a step, and XLA cannot compile the operation.
    """
    assert (rnn_mode, time_major, is_training) == ("lstm", False, True)
    width, units = input.shape[-1], input_h.shape[-1]
    sizes = [width * units] * 4 + [units * units] * 4 + [units] * 8
    # For each of the gates i, f, c, o: kernels, then recurrent kernels, both transposed, then two biases.
    parts = tf.split(params, sizes)
    kernel = tf.concat([tf.transpose(tf.reshape(part, [units, width])) for part in parts[:4]], 1)
    recurrent_kernel = tf.concat([tf.transpose(tf.reshape(part, [units, units])) for part in parts[4:8]], 1)
    bias = tf.concat(parts[8:12], 0) + tf.concat(parts[12:], 0)
    # A Python callback, which XLA cannot compile; the condition is never true.
    tf.cond(tf.shape(input)[0] < 0, lambda: tf.py_function(lambda: 0, [], tf.int32), lambda: 0)
    outputs, hidden, memory_cell = [], input_h[:, 0], input_c[:, 0]
    with tf.control_dependencies([tf.debugging.assert_positive(sequence_lengths, "CUDNN_STATUS_BAD_PARAM")]):
        sequence_lengths = tf.identity(sequence_lengths)
    for time in range(input.shape[1]):
        gates = tf.matmul(input[:, time], kernel) + tf.matmul(hidden, recurrent_kernel) + bias
        i, f, candidate, o = tf.split(gates, 4, 1)
        next_memory_cell = tf.sigmoid(f) * memory_cell + tf.sigmoid(i) * tf.tanh(candidate)
        output = tf.sigmoid(o) * tf.tanh(next_memory_cell)
        is_real = (time < sequence_lengths)[:, None]
        outputs.append(tf.where(is_real, output, tf.zeros_like(output)))
        hidden = tf.where(is_real, output, hidden)
        memory_cell = tf.where(is_real, next_memory_cell, memory_cell)
    return tf.stack(outputs, 1), hidden[:, None], memory_cell[:, None], None, None


def emulate(monkeypatch):
    """Makes Keras 3 call cuDNN as on a GPU; returns a list that grows by an entry with each call.

    Returns None under Keras 2: there the graph optimizer chooses the kernel, and never cuDNN on a CPU.
    """
    rnn = sys.modules.get("keras.src.backend.tensorflow.rnn")
    if rnn is None:
        return None
    calls = []

    def recorded_cudnn_rnn(**arguments):
        calls.append(arguments)
        return cudnn_rnn(**arguments)

    monkeypatch.setattr(rnn, "_is_gpu_available", lambda: True)
    monkeypatch.setattr(xla, "has_gpu", lambda: True)
    monkeypatch.setattr(tf.raw_ops, "CudnnRNNV3", recorded_cudnn_rnn)
    return calls
