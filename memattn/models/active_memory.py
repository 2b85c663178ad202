"""Active memory (Kaiser & Bengio, 2016): cells, whose convolutions change all positions of a memory, and its steps."""

import abc
from collections.abc import Sequence

import tensorflow as tf

from memattn.attention.ops import GENERATOR, cast
from memattn.models.dropout import dropout, fold_in, split_seed

_SATURATED = 0.9  # size of an input of a hard nonlinearity from which on `_pulled` pulls back
_PULL = 0.01  # strength of the pull, as a fraction of the mean gradient of a memory
_SHORT = 8  # length of a memory up to which a CGRU's dropout has its full rate


class Cell(tf.keras.layers.Layer):
    """Base of cells for a memory of n positions, w columns and m maps. R is the number of memories in a batch.

    Args:
      maps: m.
      width: w; kernels span three columns, or one if there is only one.
      dropout: rate in training.
      reads_tape: whether the cell also reads an output tape.
      update_bias: initial bias of the update gate, in place of the first of `biases`.
    """

    biases = (1.0, 1.0, 0.0)  # initial biases of the update gate, the reset gate and the candidate
    gain = 1.8  # initial standard deviation of the kernels times sqrt(fan-in)

    def __init__(
        self,
        *,
        maps: int,
        width: int,
        dropout: float = 0.0,
        reads_tape: bool = False,
        update_bias: float | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.maps, self.width, self.dropout, self.reads_tape = maps, width, dropout, reads_tape
        self.columns = 3 if width > 1 else 1
        if update_bias is not None:
            self.biases = (update_bias, *self.biases[1:])

    def build(self, memory_shape):
        self.gates_kernel = self._kernel(2 * self.maps, "gates_kernel")  # U' and U'' of Eq. 1
        self.kernel = self._kernel(self.maps, "kernel")  # U
        self.tape_kernel = self._kernel(3 * self.maps, "tape_kernel") if self.reads_tape else None  # W', W'' and W
        self.bias = self.add_weight(
            shape=(3 * self.maps,),
            initializer=lambda shape, dtype=None: tf.repeat(tf.constant(self.biases, dtype), self.maps),
            name="bias",
        )
        super().build(memory_shape)

    def _kernel(self, outputs, name):
        scaled = tf.keras.initializers.VarianceScaling(self.gain**2, "fan_in", "uniform")
        return self.add_weight(shape=(3, self.columns, self.maps, outputs), initializer=scaled, name=name)

    @abc.abstractmethod
    def call(self, memory, lengths, tape=None, seed=None):
        """Returns the next memory [R, n, w, m].

        `lengths` [R] are the memories' numbers of positions; the rest is padding and stays 0. `tape` is W * p of the
        output tape [R, n, w, 3m], or None. `seed` [2] turns dropout on.
        """

    def first_column(self, embedded, lengths, seed):
        """Returns the first memory's first column [B, n, m] for embedded sources; `seed` [2] turns dropout on."""
        return embedded

    def _sums(self, memory, tape):
        """Returns the gates' inputs [R, n, w, 2m], and the candidate's without its convolution."""
        gates = convolution(memory, self.gates_kernel)
        added = tf.cast(self.bias, memory.dtype) if tape is None else tape + tf.cast(self.bias, memory.dtype)
        return gates + added[..., : gates.shape[-1]], added[..., gates.shape[-1] :]


class ConvolutionalGRU(Cell):
    """CGRU(s) = u s + (1 - u) tanh(U * (r s) + B), with gates u and r (Kaiser & Bengio, 2016, Eqs. 1 and 2).

    As in the Neural GPU (Kaiser & Sutskever, 2016), gates reach 0 and 1: they are 1.2 sigmoid(x) - 0.1, clipped.
    Dropout is on the memory after each cell. Its rate is `dropout` up to eight positions, and lower beyond.
    """

    def call(self, memory, lengths, tape=None, seed=None):
        gates, added = self._sums(memory, tape)
        update, reset = tf.split(tf.clip_by_value(1.2 * tf.sigmoid(gates) - 0.1, 0.0, 1.0), 2, -1)
        candidate = tf.tanh(convolution(reset * memory, self.kernel) + added)
        memory = update * memory + (1 - update) * candidate
        if seed is not None and self.dropout:
            rates = self.dropout * tf.minimum(1.0, _SHORT / tf.cast(tf.maximum(lengths, 1), tf.float32))
            rates = _by_memory(rates, memory)
            kept = tf.random.stateless_uniform(tf.shape(memory), seed, alg=GENERATOR) >= rates
            memory = tf.where(kept, memory / tf.cast(1 - rates, memory.dtype), tf.zeros_like(memory))
        return masked(memory, lengths)


class DiagonalGRU(Cell):
    """The diagonal cell of the DNGPU (Freivalds & Liepins, 2017): hard gates, and a memory that moves.

    The update gate multiplies a moved memory: a third of its maps comes from the previous position, a third from the
    next. Gates are (x + 1) / 2 clipped to [0, 1]; the candidate is x clipped to [-1, 1]. Where x exceeds 0.9, a slight
    pull back keeps gradients alive (the saturation cost). Embeddings of the source are clipped like the candidate.
    Dropout is on the candidate and on these embeddings.
    """

    biases = (0.7, 0.5, 0.0)
    gain = 1.0

    def first_column(self, embedded, lengths, seed):
        return dropout(hard_tanh(embedded, lengths), self.dropout, seed)

    def call(self, memory, lengths, tape=None, seed=None):
        gates, added = self._sums(memory, tape)
        update, reset = tf.split(hard_sigmoid(gates, lengths), 2, -1)
        candidate = hard_tanh(convolution(reset * memory, self.kernel) + added, lengths)
        candidate = dropout(candidate, self.dropout, seed)
        third = self.maps // 3
        previous = tf.pad(memory[:, :-1, :, :third], [[0, 0], [1, 0], [0, 0], [0, 0]])
        following = tf.pad(memory[:, 1:, :, third : 2 * third], [[0, 0], [0, 1], [0, 0], [0, 0]])
        moved = tf.concat([previous, following, memory[..., 2 * third :]], -1)
        return masked(update * moved + (1 - update) * candidate, lengths)


CELLS = {"cgru": ConvolutionalGRU, "dngpu": DiagonalGRU}


def run_steps(cells: Sequence[Cell], memory: tf.Tensor, lengths: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
    """Returns a memory [B, N, w, m] after n steps, where each source has its own n in `lengths` [B].

    `seed` [2] turns dropout on.
    """
    steps, maximum = tf.reduce_max(lengths), memory.shape[1]

    def step(time, memory):
        changed = run_cells(cells, memory, lengths, seed=fold_in(seed, time))
        return time + 1, tf.where(_by_memory(time < lengths, memory), changed, memory)

    return tf.while_loop(lambda time, _: time < steps, step, (0, memory), maximum_iterations=maximum)[1]


def run_cells(
    cells: Sequence[Cell],
    memory: tf.Tensor,
    lengths: tf.Tensor,
    tapes: Sequence[tf.Tensor] | None = None,
    seed: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the memory after each of the cells in turn; `tapes` holds W * p for each cell, or is None."""
    for i, (cell, cell_seed) in enumerate(zip(cells, split_seed(seed, len(cells)), strict=True)):
        memory = cell(memory, lengths, None if tapes is None else tapes[i], cell_seed)
    return memory


def convolution(memory: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Returns U * s [R, n, w, m'] for s [R, n, w, m], with zeros around it, and U [3, k, m, m']."""
    return tf.nn.conv2d(memory, cast(kernel, memory.dtype), 1, "SAME")


def masked(memory: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns values [R, n, ...] with zeros from position `lengths` [R] on."""
    mask = tf.sequence_mask(lengths, memory.shape[1] or tf.shape(memory)[1])
    return tf.where(_by_memory(mask, memory), memory, tf.zeros_like(memory))


def _by_memory(values: tf.Tensor, memory: tf.Tensor) -> tf.Tensor:
    """Returns values [R] or [R, n] with as many axes as a memory [R, n, ...]."""
    index = (..., *[None] * (memory.shape.rank - values.shape.rank))
    return values[index]


def hard_sigmoid(inputs: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns (x + 1) / 2 clipped to [0, 1], with the gradient of `_pulled`, for x [R, n, ...]."""
    return tf.clip_by_value(0.5 * _pulled(inputs, lengths) + 0.5, 0.0, 1.0)


def hard_tanh(inputs: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns x clipped to [-1, 1], with the gradient of `_pulled`, for x [R, n, ...]."""
    return tf.clip_by_value(_pulled(inputs, lengths), -1.0, 1.0)


@tf.function(autograph=False)  # a small graph, as TensorFlow never frees a graph that has a custom gradient
@tf.custom_gradient
def _pulled(inputs, lengths):
    """Returns the inputs [R, n, ...], with a gradient that also pulls them back where their size exceeds 0.9.

    The pull replaces the authors' saturation cost. It is a fraction of the mean gradient, so that it fades with the
    loss, as the weight of their cost does. Each memory has its own mean, over its `lengths` [R] positions: so neither
    padding nor the memories beside it, which may be on another device, change its gradient.
    """

    def gradient(upstream):
        sizes = tf.reduce_mean(tf.cast(tf.abs(upstream), tf.float32), list(range(2, inputs.shape.rank)))  # [R, n]
        sums, counts = tf.reduce_sum(masked(sizes, lengths), 1), tf.cast(lengths, tf.float32)
        pulls = tf.cast(_PULL * tf.math.divide_no_nan(sums, counts), inputs.dtype)
        beyond = tf.sign(inputs) * tf.cast(tf.abs(inputs) > _SATURATED, inputs.dtype)
        return upstream + masked(_by_memory(pulls, inputs) * beyond, lengths), None

    return tf.identity(inputs), gradient
