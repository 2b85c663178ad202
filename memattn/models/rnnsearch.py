"""The decoder of Bahdanau, Cho and Bengio (2015), which reads the source before it updates its state."""

import tensorflow as tf

from memattn.models.attentive_decoder import AttentiveDecoder, ContextKernels, Reader, Stepper, StepResult
from memattn.models.decoder import divided_kernel, gru_parts
from memattn.models.dropout import dropout


class RNNsearchDecoder(AttentiveDecoder):
    """A GRU whose previous state s_{i-1} is the query for the context c_i, and a maxout layer (appendix A.2).

    s_i = (1 - z) * s_{i-1} + z * tanh(W y + U (r * s_{i-1}) + C c_i), where y is the embedding of the previous token,
    and z and r are the gates. The output layer gets the maximum of each pair of elements of U_o s_{i-1} + V_o y +
    C_o c_i, without s_i; it is half as wide as the state, as in that paper. Dropout is on the inputs y and c_i of the
    cell, and on the input y of the maxout layer.
    """

    default_bridge = "backward"

    def _make_weights(self, width):
        width, units = width + self.context_size, self.units
        shapes = {
            "kernel": (width, 3 * units),  # of [y; c], for z, r and the candidate
            "recurrent_kernel": (units, 3 * units),
            "read_out_kernel": (width + units, units),  # of [y; c; s]
        }
        self.kernel, self.recurrent_kernel, self.read_out_kernel = (
            self.add_weight(shape=shape, initializer=self.initializer, name=name) for name, shape in shapes.items()
        )
        self.bias = self.add_weight(shape=(3 * units,), initializer="zeros", name="bias")
        self.read_out_bias = self.add_weight(shape=(units,), initializer="zeros", name="read_out_bias")
        return units // 2

    def gates(self, inputs, seed=None):
        """Returns what inputs [..., E] contribute to cell and maxout layer [..., 3U + U], biases included."""
        size = inputs.shape[-1]
        kernel = tf.concat([self._cast(self.kernel)[:size], self._cast(self.read_out_kernel)[:size]], -1)
        bias = tf.concat([self._cast(self.bias), self._cast(self.read_out_bias)], -1)
        return tf.tensordot(dropout(inputs, self.dropout, seed), kernel, 1) + bias

    def context_kernels(self):
        kernel, read_out_kernel = map(tf.convert_to_tensor, (self.kernel, self.read_out_kernel))
        first = kernel.shape[0] - self.context_size
        return ContextKernels(kernel[first:], read_out_kernel[first : -self.units])

    def _stepper(self, reader):
        recurrent_kernels = divided_kernel(self._cast(self.recurrent_kernel))
        return RNNsearchStepper(reader, recurrent_kernels, self._cast(self.read_out_kernel)[-self.units :])


class RNNsearchStepper(Stepper):
    """Runs an `RNNsearchDecoder` step by step.

    Args:
      reader: reads contexts from the memory.
      recurrent_kernels: [U, 2U], from the state to z and r; and [U, U], to the candidate.
      read_out_kernel: [U, U], from the state to the maxout layer.
    """

    def __init__(self, reader: Reader, recurrent_kernels: tuple[tf.Tensor, tf.Tensor], read_out_kernel: tf.Tensor):
        super().__init__(reader)
        self._recurrent_kernels, self._read_out_kernel = recurrent_kernels, read_out_kernel

    def __call__(self, gates, state, seed=None):
        ((hidden,),) = state["cells"]
        units = hidden.shape[-1]
        reading = self.reader.read(hidden, state["attention"], seed)
        inputs, read_out = gates[:, :, : 3 * units], gates[:, :, 3 * units :]
        inputs = self.reader.add_to_gates(inputs, reading.input_contexts, seed)
        update, candidate = gru_parts(inputs, hidden, *self._recurrent_kernels)
        next_hidden = (1 - update) * hidden + update * candidate
        outputs = tf.concat([hidden, read_out], -1)  # [B, Q, 2U]
        next_state = {"cells": [[next_hidden]], "attention": reading.state}
        return StepResult(outputs, reading.output_contexts, reading.weights, next_state)

    def output_features(self, outputs, contexts):
        """Returns the output of the maxout layer [B, Q, U / 2]."""
        hidden, read_out = tf.split(outputs, 2, -1)
        summed = read_out + tf.tensordot(hidden, self._read_out_kernel, 1) + self.reader.output_part(contexts)
        batch, queries, units = tf.shape(summed)[0], tf.shape(summed)[1], summed.shape[-1]
        return tf.reduce_max(tf.reshape(summed, [batch, queries, units // 2, 2]), -1)
