"""A decoder of GRUs, which reads one context in each step with the top cell's output, as the paper's decoder does."""

import tensorflow as tf

from memattn.models.decoder import Decoder
from memattn.models.stepper import StackStepper, gru_parts


class GRUStepper(StackStepper):
    """Runs a `GRUDecoder` step by step, G = 3U.

    The weights of a further cell are the kernel [U, 3U] and the bias [3U] of its input, and its recurrent kernels, as
    `_divided` returns them.
    """

    def __init__(self, *, recurrent_kernel, **kwargs):
        super().__init__(recurrent_kernel=recurrent_kernel, **kwargs)
        self._recurrent_kernels = _divided(recurrent_kernel)

    def _run_first(self, gates, cell):
        return _gru(gates, cell[0], self._recurrent_kernels)

    def _run_upper(self, inputs, cell, weights):
        kernel, bias, recurrent_kernels = weights
        return _gru(tf.tensordot(inputs, kernel, 1) + bias, cell[0], recurrent_kernels)


@tf.keras.utils.register_keras_serializable("memattn")
class GRUDecoder(Decoder):
    """A `Decoder` of GRUs as in Cho et al. (2014), where the reset gate comes before the product.

    For its arguments, see `Decoder`. The baseline of Kaiser and Bengio (2016) has this decoder and an encoder of GRUs.
    """

    state_parts = 1
    cell_name, cell_type = "gru", tf.keras.layers.GRUCell
    runs_whole_layers = False
    cell_options = {"reset_after": False}
    stepper_type = GRUStepper

    def _upper_weights(self, kernel, recurrent_kernel, bias):
        return kernel, bias, _divided(recurrent_kernel)


def _divided(recurrent_kernel: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the kernels [U, 2U] of the gates, and [U, U] of the candidate."""
    units = recurrent_kernel.shape[0]
    return recurrent_kernel[:, : 2 * units], recurrent_kernel[:, 2 * units :]


def _gru(gates: tf.Tensor, hidden: tf.Tensor, recurrent_kernels: tuple[tf.Tensor, tf.Tensor]) -> list[tf.Tensor]:
    """Returns the next h, for what the inputs of a cell contribute to its gates [B, Q, 3U]; the gate z keeps h."""
    update, candidate = gru_parts(gates, hidden, *recurrent_kernels)
    return [update * hidden + (1 - update) * candidate]
