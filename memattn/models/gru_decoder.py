"""A decoder of GRUs, which reads one context in each step with the top cell's output, as the paper's decoder does."""

import tensorflow as tf

from memattn.models.decoder import Decoder
from memattn.models.stepper import StackStepper


class GRUStepper(StackStepper):
    """Runs a `GRUDecoder` step by step, G = 3U.

    The weights of a further cell are the kernels [U, 3U] of its input and of its previous output, and the bias [3U].
    """

    def _run_first(self, gates, cell):
        return _gru(gates, cell[0], self._recurrent_kernel)

    def _run_upper(self, inputs, cell, weights):
        kernel, recurrent_kernel, bias = weights
        return _gru(tf.tensordot(inputs, kernel, 1) + bias, cell[0], recurrent_kernel)


@tf.keras.utils.register_keras_serializable("memattn")
class GRUDecoder(Decoder):
    """A `Decoder` of GRUs as in Cho et al. (2014), where the reset gate comes before the product.

    For its arguments, see `Decoder`. The baseline of Kaiser and Bengio (2016) has this decoder and an encoder of GRUs.
    """

    cell_name, cell_type = "gru", tf.keras.layers.GRUCell
    cell_options = {"reset_after": False}
    stepper_type = GRUStepper

    def _upper_weights(self, kernel, recurrent_kernel, bias):
        return kernel, recurrent_kernel, bias

    def _unroll_layers(self, inputs, cells, stepper, seed):
        """Runs step after step, since only LSTMs have a loop that runs a whole layer (`run_lstm`)."""
        return self._unroll_steps(inputs, cells, stepper, seed)


def _gru(gates: tf.Tensor, hidden: tf.Tensor, recurrent_kernel: tf.Tensor) -> list[tf.Tensor]:
    """Returns the next h of a GRU, for what its inputs contribute to its gates [B, Q, 3U].

    The gates are in Keras' order z, r, candidate; z keeps the state.
    """
    units = hidden.shape[-1]
    recurrent = tf.tensordot(hidden, recurrent_kernel[:, : 2 * units], 1)
    update, reset = tf.split(tf.sigmoid(gates[:, :, : 2 * units] + recurrent), 2, -1)
    candidate = gates[:, :, 2 * units :] + tf.tensordot(reset * hidden, recurrent_kernel[:, 2 * units :], 1)
    return [update * hidden + (1 - update) * tf.tanh(candidate)]
