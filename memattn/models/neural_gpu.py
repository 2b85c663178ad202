"""The Neural GPU, the Markovian Neural GPU and the Extended Neural GPU (Kaiser & Bengio, 2016)."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import tensorflow as tf

from memattn.attention.ops import cast, run_loop
from memattn.data.lexicon import Selection
from memattn.data.vocabulary import PAD
from memattn.models.active_memory import CELLS, run_cells, run_steps
from memattn.models.dropout import fold_in
from memattn.models.embeddings import OutputWeights, output_weights, shift_right
from memattn.models.interface import MemoryLength, MemoryRatio, Model
from memattn.options import OneOf, Options, PositiveInt, Rate

_DECODER_SEEDS, _SOURCE_SEED = 2**16, 2**17  # numbers for `fold_in`, above those of the encoder's steps


@dataclasses.dataclass(frozen=True)
class NeuralGPUConfig(Options):
    """Active memory: a Neural GPU (docs/results/neural_gpu.md)."""

    has_memory_length: ClassVar[bool] = True

    # neural_gpu: computes all outputs at once; markovian: each output depends on the one before; extended: a decoder
    # of cells with an output tape
    kind: Literal["neural_gpu", "markovian", "extended"] = "neural_gpu"
    # cgru: the convolutional GRU of Kaiser & Bengio (2016); dngpu: the diagonal cell of Freivalds & Liepins (2017)
    cell: Annotated[str, OneOf(CELLS)] = "cgru"
    width: PositiveInt = 4  # w, columns of the memory
    layers: PositiveInt = 2  # cells that update the memory one after the other at each step
    units: PositiveInt = 256  # m, feature maps of the memory
    dropout: Rate = 0.2  # dropout rate in the cells


class Encoded(NamedTuple):
    """A batch of embedded sources, each for a memory of n positions."""

    embedded: tf.Tensor  # embeddings [B, N, m], 0 for padding
    lengths: tf.Tensor  # n [B], at most N


class Decoding(NamedTuple):
    """Values that every decoder step of a batch uses."""

    memory: tf.Tensor  # the encoder's last memory [B, N, w, m]
    lengths: tf.Tensor  # n [B]
    embeddings: tf.Tensor  # embeddings of outputs [V, m] in float32, as `NeuralGPU.token_table` returns them
    output: OutputWeights


@tf.keras.utils.register_keras_serializable("memattn")
class NeuralGPU(Model):
    """A memory with a position for each token; every step changes all positions (Kaiser & Bengio, 2016, section 2).

    The embedded source fills the first column of a memory of n positions, w columns and m maps. The cells change the
    memory n times. Then the first column at position k gives the k-th output, independently of the other outputs. In
    training, n is the length of the source or of the target, whichever is longer, with its end of sentence. In
    decoding, `decoding.memory_ratio` gives n; without it, a search tries each n from the source's length to twice that.

    It has no alignments. The class, not `config.kind`, decides the kind of the model.

    Args:
      **kwargs: see `Model`.
      length_regression: intercept and slope of n by a source's length (`TrainingBatches.length_regression`); None
        if it is not known.
    """

    config_class = NeuralGPUConfig
    argument_names = (*Model.argument_names, "length_regression")
    has_alignments = False
    has_decoder_cells = False  # whether cells change the memory again at each output
    num_features = 1  # number of vectors of width m that the output layer gets

    def __init__(self, config: NeuralGPUConfig, *, length_regression: Sequence[float] | None = None, **kwargs):
        super().__init__(config, **kwargs)
        self.width, self.units = config.width, config.units
        self.length_regression = None if length_regression is None else tuple(length_regression)
        self.source_embedding = self._embedding("source_embedding")
        reads_outputs = self.num_features > 1 or self.has_decoder_cells
        self.target_embedding = self._embedding("target_embedding") if reads_outputs else None
        cell = CELLS[config.cell]
        common = {"maps": self.units, "width": self.width, "dropout": config.dropout, "dtype": self.dtype_policy}
        decoder_layers = config.layers if self.has_decoder_cells else 0
        self.encoder = [cell(name=f"encoder_{i}", **common) for i in range(config.layers)]
        self.decoder = [cell(name=f"decoder_{i}", reads_tape=True, **common) for i in range(decoder_layers)]
        self.output_layer = tf.keras.layers.Dense(self.vocabulary_size, dtype=self.dtype_policy, name="output")
        for layer in [*self.encoder, *self.decoder]:
            layer.build((None, None, self.width, self.units))
        self.output_layer.build((None, None, self.num_features * self.units))
        self.built = True

    def _embedding(self, name: str) -> tf.keras.layers.Embedding:
        layer = tf.keras.layers.Embedding(
            self.vocabulary_size,
            self.units,
            embeddings_initializer=tf.keras.initializers.RandomUniform(-1.7, 1.7),
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build((None, None))
        return layer

    def encode(self, source: tf.Tensor, seed: tf.Tensor | None = None, jit_compile: bool = False) -> Encoded:
        """Embeds source ids [B, S], padded with PAD, for memories as long as the sources."""
        is_token = self.state_mask(source)
        embedded = self.source_embedding(source)
        return Encoded(tf.where(is_token[:, :, None], embedded, tf.zeros_like(embedded)), _count(is_token))

    def state_mask(self, source: tf.Tensor) -> tf.Tensor:
        return tf.not_equal(source, PAD)

    def memory_lengths(self, encoded: Encoded, ratio: MemoryRatio) -> Iterator[MemoryLength]:
        """Yields the sources for memories of each length that a search tries.

        Without a ratio, these are all lengths from n to 2n, for a source of n tokens. With a ratio, there is a single
        length, ceil(ratio * n). With "estimate", there is a single length, too, by `length_regression`, and at least n.
        A memory of m positions has room for m outputs, with the end of sentence.

        Raises ValueError for "estimate" if the regression is not known.
        """
        longest = encoded.embedded.shape[1]
        if ratio is None:
            for extra in range(longest + 1):
                lengths = tf.minimum(encoded.lengths + extra, 2 * encoded.lengths)
                yield MemoryLength(_resized(encoded, lengths, 2 * longest), lengths)
        else:
            sizes = [self._size(ratio, length) for length in range(longest + 1)]
            lengths = tf.gather(tf.constant(sizes), encoded.lengths)
            yield MemoryLength(_resized(encoded, lengths, max(sizes)), lengths)

    def _size(self, ratio: float | Literal["estimate"], length: int) -> int:
        """Returns the length of the memory for a source of `length` tokens; 0 for padding."""
        if ratio != "estimate":
            return math.ceil(Fraction(str(ratio)) * length)
        if self.length_regression is None:
            raise ValueError("no estimate: length_regression is not set")
        intercept, slope = self.length_regression
        return max(length, math.ceil(intercept + slope * length)) if length else 0

    def token_table(self) -> tf.Tensor:
        """Returns the embeddings of outputs [V, m]; an empty tensor for a model that does not read its outputs."""
        embedding = self.target_embedding
        return tf.zeros([0]) if embedding is None else tf.convert_to_tensor(embedding.embeddings)

    def start(
        self, encoded: Encoded, num_queries: int, token_table: tf.Tensor, selected: Selection | None = None
    ) -> tuple[Decoding, dict[str, Any]]:
        decoding = Decoding(self.run(encoded), encoded.lengths, token_table, self._output(selected))
        return decoding, self._first_state(decoding, num_queries)

    def step(self, tokens: tf.Tensor, state: dict, decoding: Decoding) -> tuple[tf.Tensor, tf.Tensor, dict]:
        features, state = self._features(self._embedded(tokens, decoding), state, decoding, None)
        return decoding.output.logits(features), features[:, :, :0], state  # no attention weights [B, Q, 0]

    def call(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns logits [B, T, V] under teacher forcing: those of position t see at most the target [B, T] before t.

        They also depend on the target's length where it exceeds the source's, because n is the greater of both. A
        search does not know that length. `seed` [2] turns dropout on.
        """
        return self.teacher_forced_logits(self.encode(source), target, seed)

    def teacher_forced_logits(self, encoded: Encoded, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        target_lengths = _count(tf.not_equal(target, PAD))
        sizes = [tensor.shape[1] or tf.shape(tensor)[1] for tensor in (encoded.embedded, target)]
        largest = max(sizes) if all(isinstance(size, int) for size in sizes) else tf.maximum(*sizes)
        encoded = _resized(encoded, tf.maximum(encoded.lengths, target_lengths), largest)
        decoding = Decoding(self.run(encoded, seed), encoded.lengths, self.token_table(), self._output())
        return decoding.output.logits(self._teacher_forced(decoding, target, seed))

    def run(self, encoded: Encoded, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the memory [B, N, w, m] after the encoder's n steps; each source has its own n."""
        return run_steps(self.encoder, self.first_memory(encoded, seed), encoded.lengths, seed)

    def first_memory(self, encoded: Encoded, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the memory [B, N, w, m] before any step: the source in the first column."""
        column = self.encoder[0].first_column(encoded.embedded, encoded.lengths, fold_in(seed, _SOURCE_SEED))
        return tf.pad(column[:, :, None], [[0, 0], [0, 0], [0, self.width - 1], [0, 0]])

    def _first_state(self, decoding, num_queries):
        """Returns the state before the first decoder step, of tensors [B, Q, ...]."""
        return {"position": tf.zeros([tf.shape(decoding.memory)[0], num_queries], tf.int32)}

    def _embedded(self, tokens, decoding):
        """Returns the embeddings of outputs [B, Q or T, m]; None for a model that does not read its outputs."""
        if self.target_embedding is None:
            return None
        # The cast comes last: the gradient of a table in half precision would be summed in half precision.
        return tf.cast(tf.gather(decoding.embeddings, tokens), self.compute_dtype)

    def _features(self, embedded, state, decoding, seed):
        """Returns the input of the output layer [B, Q, F] after outputs `embedded` [B, Q, m], and the next state."""
        column = decoding.memory[:, :, 0]
        position = tf.minimum(state["position"], tf.shape(column)[1] - 1)
        return tf.gather(column, position, batch_dims=1), {"position": state["position"] + 1}

    def _teacher_forced(self, decoding, target, seed):
        """Returns the inputs of the output layer [B, T, F] for a target [B, T]."""
        return decoding.memory[:, : tf.shape(target)[1], 0]

    def _output(self, selected: Selection | None = None) -> OutputWeights:
        """Returns the weights of the output layer, for all tokens or for the selected ones."""
        return output_weights(self.output_layer.kernel, self.output_layer.bias, self.compute_dtype, selected)


@tf.keras.utils.register_keras_serializable("memattn")
class MarkovianNeuralGPU(NeuralGPU):
    """A Neural GPU whose output layer also gets the embedding of the previous output (Kaiser & Bengio, section 2.1)."""

    num_features = 2

    def _features(self, embedded, state, decoding, seed):
        features, state = super()._features(embedded, state, decoding, seed)
        return tf.concat([features, embedded], -1), state

    def _teacher_forced(self, decoding, target, seed):
        features = super()._teacher_forced(decoding, target, seed)
        return tf.concat([features, self._embedded(shift_right(target), decoding)], -1)


@tf.keras.utils.register_keras_serializable("memattn")
class ExtendedNeuralGPU(NeuralGPU):
    """A Neural GPU whose memory changes again at each output, with a tape of the outputs so far (section 2.2).

    d_0 is the encoder's last memory, and d_k = CGRUd(d_{k-1}, p_{k-1}). The k-th position of d_k gives the output o_k.
    The tape p_k is p_{k-1} with the embedding of o_k at position k of its first column. So d_k has seen o_1 to o_{k-1}.
    The state holds W * p in place of p, because an output changes W * p at three positions only.
    """

    has_decoder_cells = True

    def _first_state(self, decoding, num_queries):
        memory = tf.repeat(decoding.memory[:, None], num_queries, 1)  # [B, Q, N, w, m]
        tapes = [tf.repeat(tf.zeros_like(memory), 3, -1)] * len(self.decoder)
        return {**super()._first_state(decoding, num_queries), "memory": memory, "tapes": tapes}

    def _features(self, embedded, state, decoding, seed):
        position, queries, memory = state["position"], embedded.shape[1], state["memory"]
        outputs = tf.where((position > 0)[:, :, None], embedded, tf.zeros_like(embedded))  # BOS is no output
        tapes = [
            tape + self._tape_change(outputs, position - 1, cell, tape)
            for cell, tape in zip(self.decoder, state["tapes"], strict=True)
        ]
        flat_memory, *flat_tapes = map(_merge_queries, [memory, *tapes])
        changed = run_cells(self.decoder, flat_memory, tf.repeat(decoding.lengths, queries), flat_tapes, seed)
        memory = tf.ensure_shape(tf.reshape(changed, tf.shape(memory)), memory.shape)
        row = tf.minimum(position, tf.shape(memory)[2] - 1)[:, :, None]
        features = tf.gather(memory[:, :, :, 0], row, batch_dims=2)[:, :, 0]
        return features, {"position": position + 1, "memory": memory, "tapes": tapes}

    def _tape_change(self, outputs, position, cell, tape):
        """Returns what outputs [B, Q, m] at positions [B, Q] of p add to W * p [B, Q, N, w, 3m]."""
        kernel = cast(cell.tape_kernel, outputs.dtype)  # [3, k, m, 3m]
        middle, size = cell.columns // 2, tf.shape(tape)[2]
        columns = kernel[:, middle::-1] if middle else kernel  # for the first and the second column of W * p
        values = tf.einsum("bqm,ukmo->bquko", outputs, columns)
        changed = position[:, :, None] + tf.constant([1, 0, -1])  # see the output at offset -1, 0, 1
        added = tf.einsum("bqun,bquko->bqnko", tf.one_hot(changed, size, dtype=outputs.dtype), values)
        return tf.pad(added, [[0, 0], [0, 0], [0, 0], [0, self.width - columns.shape[1]], [0, 0]])

    def _teacher_forced(self, decoding, target, seed):
        def step(time, embedded, state):
            features, state = self._features(embedded, state, decoding, fold_in(seed, time + _DECODER_SEEDS))
            return [features], state

        state, embedded = self._first_state(decoding, 1), self._embedded(shift_right(target), decoding)
        (features,) = run_loop(step, state, embedded, num_outputs=1, dtype=embedded.dtype)
        return features


def _resized(encoded: Encoded, lengths: tf.Tensor, size: int | tf.Tensor) -> Encoded:
    """Returns the sources for memories of `lengths` [B] positions; N is `size`."""
    extra = size - (encoded.embedded.shape[1] or tf.shape(encoded.embedded)[1])
    return Encoded(tf.pad(encoded.embedded, [[0, 0], [0, extra], [0, 0]]), lengths)


def _merge_queries(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor [B, Q, ...] as [B Q, ...]."""
    merged = tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[2:]], 0))
    return tf.ensure_shape(merged, [None, *tensor.shape[2:]])


def _count(is_token: tf.Tensor) -> tf.Tensor:
    """Returns the number of tokens [B] in each row of a mask [B, S]."""
    return tf.reduce_sum(tf.cast(is_token, tf.int32), 1)


KINDS = {"neural_gpu": NeuralGPU, "markovian": MarkovianNeuralGPU, "extended": ExtendedNeuralGPU}
