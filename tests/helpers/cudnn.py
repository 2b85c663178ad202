"""Keras 3's cuDNN path on a CPU, which computes and refuses what the LSTM kernel of a GPU does."""

import sys

import tensorflow as tf


def cudnn_rnn(*, input, input_h, input_c, params, is_training, rnn_mode, sequence_lengths, time_major):
    """Stands for tf.raw_ops.CudnnRNNV3: outputs [B, T, U], 0 past each row's length, and the final h and c [B, 1, U].

    Like that operation, it takes no row without a step, and XLA cannot compile it.
    """
    assert (rnn_mode, time_major, is_training) == ("lstm", False, True)
    width, units = input.shape[-1], input_h.shape[-1]
    sizes = [width * units] * 4 + [units * units] * 4 + [units] * 8
    parts = tf.split(params, sizes)  # by gate, i, f, c, o: kernels and recurrent kernels, transposed; two biases
    kernel = tf.concat([tf.transpose(tf.reshape(part, [units, width])) for part in parts[:4]], 1)
    recurrent_kernel = tf.concat([tf.transpose(tf.reshape(part, [units, units])) for part in parts[4:8]], 1)
    bias = tf.concat(parts[8:12], 0) + tf.concat(parts[12:], 0)
    # A Python callback has no kernel in XLA; it is never called.
    tf.cond(tf.shape(input)[0] < 0, lambda: tf.py_function(lambda: 0, [], tf.int32), lambda: 0)
    outputs, hidden, memory_cell = [], input_h[:, 0], input_c[:, 0]
    with tf.control_dependencies([tf.debugging.assert_positive(sequence_lengths, "CUDNN_STATUS_BAD_PARAM")]):
        sequence_lengths = tf.identity(sequence_lengths)
    for time in range(input.shape[1]):
        gates = tf.matmul(input[:, time], kernel) + tf.matmul(hidden, recurrent_kernel) + bias
        i, f, candidate, o = tf.split(gates, 4, 1)
        following = tf.sigmoid(f) * memory_cell + tf.sigmoid(i) * tf.tanh(candidate)
        output = tf.sigmoid(o) * tf.tanh(following)
        is_real = (time < sequence_lengths)[:, None]
        outputs.append(tf.where(is_real, output, tf.zeros_like(output)))
        hidden, memory_cell = tf.where(is_real, output, hidden), tf.where(is_real, following, memory_cell)
    return tf.stack(outputs, 1), hidden[:, None], memory_cell[:, None], None, None


def emulate(monkeypatch):
    """Makes Keras 3 take the path of a GPU; returns a list that grows with each use of the operation.

    Returns None under Keras 2, whose graph optimizer chooses the kernel, so that a CPU never takes it.
    """
    rnn = sys.modules.get("keras.src.backend.tensorflow.rnn")
    if rnn is None:
        return None
    uses = []
    monkeypatch.setattr(rnn, "_is_gpu_available", lambda: True)
    monkeypatch.setattr(tf.raw_ops, "CudnnRNNV3", lambda **given: uses.append(rnn) or cudnn_rnn(**given))
    return uses
