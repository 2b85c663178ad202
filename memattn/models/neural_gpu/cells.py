"""Cells of active memory: one step of all positions of a memory at once, by convolutions."""

import tensorflow as tf

from memattn.attention.ops import GENERATOR, cast
from memattn.models.dropout import dropout

_SATURATED = 0.9  # from this size on, what enters a hard nonlinearity of the diagonal cell is pulled back
_PULL = 0.01  # of the mean gradient
_SHORT = 8  # positions of a memory at which `dropout` is the rate of a CGRU


class Cell(tf.keras.layers.Layer):
    """A cell of a memory of n positions, w columns and m maps.

    Args:
      maps: m.
      width: w; the kernels span three columns, or the only one.
      dropout: rate in training.
      reads_tape: whether the memory is changed by an output tape as well.
    """

    parts = 3  # convolutions of the memory
    biases = (1.0, 1.0, 0.0)  # of the update gate, the reset gate and the candidate, at first
    gain = 1.8  # of the kernels: their standard deviation is this over the root of what an output sums

    def __init__(self, *, maps: int, width: int, dropout: float = 0.0, reads_tape: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.maps, self.columns, self.dropout, self.reads_tape = maps, 3 if width > 1 else 1, dropout, reads_tape

    def build(self, memory_shape):
        gates = (self.parts - 1) * self.maps
        self.gates_kernel = self._kernel(gates, "gates_kernel") if gates else None  # U' and U'' of Eq. 1
        self.kernel = self._kernel(self.maps, "kernel")  # U
        tape = self.parts * self.maps if self.reads_tape else 0
        self.tape_kernel = self._kernel(tape, "tape_kernel") if tape else None  # W', W'' and W
        self.bias = None
        if self.biases:
            self.bias = self.add_weight(
                shape=(self.parts * self.maps,),
                initializer=lambda shape, dtype=None: tf.repeat(tf.constant(self.biases, dtype), self.maps),
                name="bias",
            )
        super().build(memory_shape)

    def _kernel(self, outputs, name):
        scaled = tf.keras.initializers.VarianceScaling(self.gain**2, "fan_in", "uniform")
        return self.add_weight(shape=(3, self.columns, self.maps, outputs), initializer=scaled, name=name)

    def call(self, memory, lengths, tape=None, seed=None):
        """The next memory [R, n, w, m].

        Args:
          memory: [R, n, w, m].
          lengths: the positions [R] that each row really has; the others stay 0.
          tape: W * p of the output tape [R, n, w, parts * m], or None.
          seed: [2], turns dropout on.
        """
        raise NotImplementedError

    def entered(self, embedded, seed=None):
        """What enters the memory [B, n, m] of the source's embeddings; `seed` [2] turns dropout on."""
        del seed
        return embedded

    def _sums(self, memory, tape):
        """What enters the gates [R, n, w, (parts - 1) m], and what the candidate gets but for its convolution."""
        gates = convolution(memory, self.gates_kernel)
        added = tf.cast(self.bias, memory.dtype) if tape is None else tape + tf.cast(self.bias, memory.dtype)
        return gates + added[..., : gates.shape[-1]], added[..., gates.shape[-1] :]

    def get_config(self):
        own = {"maps": self.maps, "width": self.columns, "dropout": self.dropout, "reads_tape": self.reads_tape}
        return {**super().get_config(), **own}


@tf.keras.utils.register_keras_serializable("memattn")
class ConvolutionalGRU(Cell):
    """CGRU(s) = u s + (1 - u) tanh(U * (r s) + B), with gates u and r (Kaiser & Bengio, 2016, Eqs. 1 and 2).

    As in the Neural GPU (Kaiser & Sutskever, 2016), gates reach 0 and 1: they are 1.2 sigmoid(x) - 0.1, cut. Dropout is
    on the whole memory after each cell, and milder where it is longer: `dropout` is the rate at eight positions.
    """

    def call(self, memory, lengths, tape=None, seed=None):
        gates, added = self._sums(memory, tape)
        update, reset = tf.split(tf.clip_by_value(1.2 * tf.sigmoid(gates) - 0.1, 0.0, 1.0), 2, -1)
        candidate = tf.tanh(convolution(reset * memory, self.kernel) + added)
        memory = update * memory + (1 - update) * candidate
        if seed is not None and self.dropout:
            rates = self.dropout * tf.minimum(1.0, _SHORT / tf.cast(tf.maximum(lengths, 1), tf.float32))
            memory = _dropped(memory, rates, seed)
        return masked(memory, lengths)


@tf.keras.utils.register_keras_serializable("memattn")
class DiagonalGRU(Cell):
    """The diagonal cell of the DNGPU (Freivalds & Liepins, 2017): hard gates, and a memory that moves.

    The update gate multiplies the memory with a third of its maps taken from the position before, and a third from the
    next. Gates are (x + 1) / 2 and the candidate is x, cut at their limits; beyond 0.9 a slight pull leads x back, to
    keep gradients alive (the saturation cost). Embeddings of the source are cut like the candidate; dropout is on both.
    """

    biases = (0.7, 0.5, 0.0)
    gain = 1.0

    def entered(self, embedded, seed=None):
        return dropout(hard_tanh(embedded), self.dropout, seed)

    def call(self, memory, lengths, tape=None, seed=None):
        gates, added = self._sums(memory, tape)
        update, reset = tf.split(hard_sigmoid(gates), 2, -1)
        candidate = dropout(hard_tanh(convolution(reset * memory, self.kernel) + added), self.dropout, seed)
        moved = self.maps // 3
        before = tf.pad(memory[:, :-1, :, :moved], [[0, 0], [1, 0], [0, 0], [0, 0]])
        after = tf.pad(memory[:, 1:, :, moved : 2 * moved], [[0, 0], [0, 1], [0, 0], [0, 0]])
        shifted = tf.concat([before, after, memory[..., 2 * moved :]], -1)
        return masked(update * shifted + (1 - update) * candidate, lengths)


@tf.keras.utils.register_keras_serializable("memattn")
class ResidualCell(Cell):
    """s + U * s, the simplest active memory (Kaiser & Bengio, 2016, section 2). Dropout is on what is added."""

    parts, biases, gain = 1, (), 0.1

    def call(self, memory, lengths, tape=None, seed=None):
        added = convolution(memory, self.kernel)
        if tape is not None:
            added += tape
        return masked(memory + dropout(added, self.dropout, seed), lengths)


CELLS = {"cgru": ConvolutionalGRU, "residual": ResidualCell, "dngpu": DiagonalGRU}


def convolution(memory: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """U * s [R, n, w, m'] of s [R, n, w, m] and U [3, k, m, m'], with zeros around s."""
    return tf.nn.conv2d(memory, cast(kernel, memory.dtype), 1, "SAME")


def masked(memory: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """A memory [R, n, w, m] with zeros from the positions `lengths` [R] on."""
    real = tf.sequence_mask(lengths, memory.shape[1] or tf.shape(memory)[1])
    return tf.where(real[:, :, None, None], memory, tf.zeros_like(memory))


def hard_sigmoid(inputs: tf.Tensor) -> tf.Tensor:
    """(x + 1) / 2 cut to [0, 1], with the gradient of `_pulled`; of any shape."""
    return tf.clip_by_value(0.5 * _pulled(inputs) + 0.5, 0.0, 1.0)


def hard_tanh(inputs: tf.Tensor) -> tf.Tensor:
    """x cut to [-1, 1], with the gradient of `_pulled`; of any shape."""
    return tf.clip_by_value(_pulled(inputs), -1.0, 1.0)


@tf.custom_gradient
def _pulled(inputs):
    """`inputs` with a further gradient, in place of the saturation cost: from where they exceed 0.9, back below.

    Its size is a share of the mean gradient, so it fades with the loss, as the weight of the authors' cost does. The
    mean includes padding, where the gradient is 0.
    """

    def gradient(upstream):
        beyond = tf.sign(inputs) * tf.cast(tf.abs(inputs) > _SATURATED, inputs.dtype)
        return upstream + _PULL * tf.reduce_mean(tf.abs(upstream)) * beyond

    return tf.identity(inputs), gradient


def _dropped(values: tf.Tensor, rates: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Drops values [R, n, w, m] at a rate for each row [R]; `dropout` has one rate for all."""
    rates = rates[:, None, None, None]
    kept = tf.random.stateless_uniform(tf.shape(values), seed, alg=GENERATOR) >= rates
    return tf.where(kept, values / tf.cast(1 - rates, values.dtype), tf.zeros_like(values))
