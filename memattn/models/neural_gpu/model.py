"""The Neural GPU, and with a recurrent output the Markovian and the Extended one (Kaiser & Bengio, 2016)."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import tensorflow as tf

from memattn.attention.ops import cast
from memattn.data.vocabulary import PAD
from memattn.models.dropout import of_step, split
from memattn.models.interface import Alternative
from memattn.models.neural_gpu.cells import CELLS
from memattn.models.seq2seq import columns_of, logits_of, shifted

_OF_DECODER, _OF_SOURCE = 2**16, 2**17  # their seeds are others than those of the encoder's steps


class Encoded(NamedTuple):
    """A batch of sources in memories of n positions: embeddings [B, N, m], and the n [B] of each, at most N."""

    embedded: tf.Tensor
    lengths: tf.Tensor


class Decoding(NamedTuple):
    """What all decoder steps share: the last memory [B, N, w, m], n [B], embeddings of outputs, output layer."""

    memory: tf.Tensor
    lengths: tf.Tensor
    embeddings: tf.Tensor
    output: tuple[tf.Tensor, tf.Tensor]


@tf.keras.utils.register_keras_serializable("memattn")
class NeuralGPU(tf.keras.Model):
    """A memory with a place for each token, all of which changes at every step (section 2).

    The embedded source fills the first column of a memory of n positions, w columns and m maps. The layers' cells
    change it n times; then position k's first column gives the k-th output, independent of the others. In training n is
    the longer of source and target, both with their end of sentence; in decoding a search chooses it.

    Its methods are those of `memattn.models.interface.Model`.

    Args:
      vocabulary_size: V, shared by source and target, the special ids of `memattn.data.vocabulary` included.
      max_source_length: the longest source of the training set, with its end of sentence.
      layers: cells that change the memory in turn at each step.
      units: m.
      width: w.
      cell: "cgru", "residual" or "dngpu", see `memattn.models.neural_gpu.cells`.
      dropout: rate in the cells.
    """

    decoder_layers = False  # whether cells decode
    has_alignments = False
    num_features = 1  # vectors of m maps that the output layer gets

    def __init__(
        self,
        *,
        vocabulary_size: int,
        max_source_length: int,
        layers: int,
        units: int,
        width: int,
        cell: str,
        dropout: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._arguments = {
            "vocabulary_size": vocabulary_size,
            "max_source_length": max_source_length,
            "layers": layers,
            "units": units,
            "width": width,
            "cell": cell,
            "dropout": dropout,
        }
        self.vocabulary_size, self.max_source_length = vocabulary_size, max_source_length
        self.width, self.units = width, units
        self.source_embedding = self._embedding("source_embedding")
        self.target_embedding = (
            self._embedding("target_embedding") if self.num_features > 1 or self.decoder_layers else None
        )
        self.encoder, self.decoder = (
            [
                CELLS[cell](
                    maps=units,
                    width=width,
                    dropout=dropout,
                    reads_tape=name == "decoder",
                    dtype=self.dtype_policy,
                    name=f"{name}_{layer}",
                )
                for layer in range(layers if name == "encoder" or self.decoder_layers else 0)
            ]
            for name in ("encoder", "decoder")
        )
        self.output_layer = tf.keras.layers.Dense(vocabulary_size, dtype=self.dtype_policy, name="output")
        for one in [*self.encoder, *self.decoder]:
            one.build((None, None, width, units))
        self.output_layer.build((None, None, self.num_features * units))
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

    def build(self, source_shape=None, target_shape=None):
        self.built = True  # in the constructor

    def encode(self, source: tf.Tensor, seed: tf.Tensor | None = None) -> Encoded:
        """Embeds source ids [B, S], padded with PAD, in memories of their own length."""
        del seed
        real = tf.not_equal(source, PAD)
        embedded = self.source_embedding(source)
        return Encoded(tf.where(real[:, :, None], embedded, tf.zeros_like(embedded)), _count(real))

    def alternatives(self, encoded: Encoded, ratio: float | None) -> Iterator[Alternative]:
        """Yields the sources in memories of each length that a search tries.

        Lengths go from the source's length to twice that; with a `ratio`, there is one: ceil(ratio * source length). A
        memory has room for as many outputs as positions, the end of sentence included.
        """
        for resized in self._resized_memories(encoded, ratio):
            yield Alternative(resized, resized.lengths)

    def _resized_memories(self, encoded: Encoded, ratio: float | None) -> Iterator[Encoded]:
        longest = encoded.embedded.shape[1]
        if ratio is None:
            for more in range(longest + 1):
                lengths = tf.minimum(encoded.lengths + more, 2 * encoded.lengths)
                yield _resized(encoded, lengths, 2 * longest)
        else:
            sizes = [math.ceil(Fraction(str(ratio)) * length) for length in range(longest + 1)]
            yield _resized(encoded, tf.gather(tf.constant(sizes), encoded.lengths), sizes[-1])

    def token_table(self) -> tf.Tensor:
        """Returns the embeddings [V, m] of outputs; an empty tensor for a model that does not read its outputs."""
        embedding = self.target_embedding
        return tf.zeros([0]) if embedding is None else tf.cast(embedding.embeddings, self.compute_dtype)

    def start(
        self, encoded: Encoded, num_queries: int, token_table: tf.Tensor, selected: tf.Tensor | None = None
    ) -> tuple[Decoding, dict[str, Any]]:
        """Runs the memory; returns what all decoder steps share, and the first state of `num_queries` hypotheses.

        With token ids `selected` [N], `step` computes logits of these only.
        """
        decoding = Decoding(self.run(encoded), encoded.lengths, token_table, self._output(selected))
        return decoding, self._first_state(decoding, num_queries)

    def step(self, tokens: tf.Tensor, state: dict, decoding: Decoding) -> tuple[tf.Tensor, tf.Tensor, dict]:
        """Logits [B, Q, V or N] of the token after `tokens` [B, Q], no scores [B, Q, 0], and the next state."""
        features, state = self._features(tokens, state, decoding, None)
        return logits_of(features, decoding.output), features[:, :, :0], state

    def call(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Logits [B, T, V] for targets [B, T], of which an output sees at most those before it.

        `seed` [2] turns dropout on.
        """
        return self.decode(self.encode(source), target, seed)

    def decode(self, encoded: Encoded, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """The part of `call` after `encode`."""
        targets = _count(tf.not_equal(target, PAD))
        sizes = [side.shape[1] or tf.shape(side)[1] for side in (encoded.embedded, target)]
        largest = max(sizes) if all(isinstance(size, int) for size in sizes) else tf.maximum(*sizes)
        encoded = _resized(encoded, tf.maximum(encoded.lengths, targets), largest)
        decoding = Decoding(self.run(encoded, seed), encoded.lengths, self.token_table(), self._output())
        return logits_of(self._teacher_forced(decoding, target, seed), decoding.output)

    def run(self, encoded: Encoded, seed: tf.Tensor | None = None) -> tf.Tensor:
        """The memory [B, N, w, m] after n steps, n the row's own."""
        steps, most = tf.reduce_max(encoded.lengths), encoded.embedded.shape[1]

        def step(time, memory):
            return time + 1, self._next(time, memory, encoded.lengths, seed)

        loop = (0, self._first(encoded, seed))
        return tf.while_loop(lambda time, _: time < steps, step, loop, maximum_iterations=most)[1]

    def unrolled(self, encoded: Encoded) -> tf.Tensor:
        """The memory at each step [N + 1, B, N, w, m], the first before any."""
        memories = [self._first(encoded, None)]
        for time in range(encoded.embedded.shape[1]):
            memories.append(self._next(time, memories[-1], encoded.lengths, None))
        return tf.stack(memories)

    def _first(self, encoded, seed):
        """The memory before any step: the source in the first column."""
        entered = self.encoder[0].entered(encoded.embedded, of_step(seed, _OF_SOURCE))
        return tf.pad(entered[:, :, None], [[0, 0], [0, 0], [0, self.width - 1], [0, 0]])

    def _next(self, time, memory, lengths, seed):
        """The memory after one more step, in rows that have one."""
        changed = self._changed(self.encoder, memory, lengths, None, of_step(seed, time))
        return tf.where((time < lengths)[:, None, None, None], changed, memory)

    def _changed(self, cells, memory, lengths, tapes, seed):
        """The memory after each of the cells in turn; `tapes` holds W * p for each, or is None."""
        for i, (cell, own) in enumerate(zip(cells, split(seed, len(cells)), strict=True)):
            memory = cell(memory, lengths, None if tapes is None else tapes[i], own)
        return memory

    def _first_state(self, decoding, num_queries):
        return {"position": tf.zeros([tf.shape(decoding.memory)[0], num_queries], tf.int32)}

    def _features(self, tokens, state, decoding, seed):
        """What the output layer gets [B, Q, F] after `tokens` [B, Q], and the next state."""
        del tokens, seed
        column = decoding.memory[:, :, 0]
        place = tf.minimum(state["position"], tf.shape(column)[1] - 1)
        return tf.gather(column, place, batch_dims=1), {"position": state["position"] + 1}

    def _teacher_forced(self, decoding, target, seed):
        """The same for all positions of a target [B, T]: [B, T, F]."""
        del seed
        return decoding.memory[:, : tf.shape(target)[1], 0]

    def _output(self, selected=None):
        """Kernel [F, V] and bias [V] of the output layer, or their columns for the ids `selected` [N]."""
        return columns_of(self.output_layer.kernel, self.output_layer.bias, self.compute_dtype, selected)

    def get_config(self):
        return {**self._arguments, "name": self.name, "dtype": self.dtype_policy.name}


@tf.keras.utils.register_keras_serializable("memattn")
class MarkovianNeuralGPU(NeuralGPU):
    """A Neural GPU whose output layer also gets the last output's embedding (section 2.1)."""

    num_features = 2

    def _features(self, tokens, state, decoding, seed):
        features, state = super()._features(tokens, state, decoding, seed)
        return tf.concat([features, tf.gather(decoding.embeddings, tokens)], -1), state

    def _teacher_forced(self, decoding, target, seed):
        features = super()._teacher_forced(decoding, target, seed)
        return tf.concat([features, tf.gather(decoding.embeddings, shifted(target))], -1)


@tf.keras.utils.register_keras_serializable("memattn")
class ExtendedNeuralGPU(NeuralGPU):
    """A Neural GPU whose memory changes again at each output, with a tape of the outputs so far (section 2.2).

    d_0 is the encoder's last memory; d_k = CGRUd(d_{k-1}, p_{k-1}), whose k-th position gives o_k; p_k is p_{k-1} with
    the embedding of o_k at position k of its first column. So d_k has seen o_1 to o_{k-1}. The state holds W * p in
    place of p: each output adds to it at three positions.
    """

    decoder_layers = True

    def _first_state(self, decoding, num_queries):
        memory = tf.repeat(decoding.memory[:, None], num_queries, 1)  # [B, Q, N, w, m]
        tapes = [tf.repeat(tf.zeros_like(memory), cell.parts, -1) for cell in self.decoder]
        return {**super()._first_state(decoding, num_queries), "memory": memory, "tapes": tapes}

    def _features(self, tokens, state, decoding, seed):
        position, queries = state["position"], tokens.shape[1]
        written = tf.gather(decoding.embeddings, tokens)  # [B, Q, m]
        written = tf.where((position > 0)[:, :, None], written, tf.zeros_like(written))  # BOS is no output
        tapes = [
            tape + self._written(written, position - 1, cell, tape)
            for cell, tape in zip(self.decoder, state["tapes"], strict=True)
        ]
        shape = tf.shape(state["memory"])

        def together(tensor):  # [B, Q, ...] as [B Q, ...]
            static = tensor.shape[2:]
            flat = tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[2:]], 0))
            return tf.ensure_shape(flat, [None, *static])

        lengths = tf.repeat(decoding.lengths, queries)
        changed = self._changed(
            self.decoder, together(state["memory"]), lengths, [together(tape) for tape in tapes], seed
        )
        memory = tf.ensure_shape(tf.reshape(changed, shape), state["memory"].shape)
        place = tf.minimum(position, shape[2] - 1)[:, :, None]
        features = tf.gather(memory[:, :, :, 0], place, batch_dims=2)[:, :, 0]
        return features, {"position": position + 1, "memory": memory, "tapes": tapes}

    def _written(self, written, position, cell, tape):
        """What an output [B, Q, m] at a position [B, Q] of the first column adds to W * p [B, Q, N, w, parts * m]."""
        kernel = cast(cell.tape_kernel, written.dtype)  # [3, k, m, parts * m]
        middle, size = cell.columns // 2, tf.shape(tape)[2]
        columns = kernel[:, middle::-1] if middle else kernel  # that reach the first column from it and the second
        values = tf.einsum("bqm,ukmo->bquko", written, columns)
        places = position[:, :, None] + tf.constant([1, 0, -1])  # that see it at their offset -1, 0, 1
        added = tf.einsum("bqun,bquko->bqnko", tf.one_hot(places, size, dtype=written.dtype), values)
        return tf.pad(added, [[0, 0], [0, 0], [0, 0], [0, self.width - columns.shape[1]], [0, 0]])

    def _teacher_forced(self, decoding, target, seed):
        tokens = tf.transpose(shifted(target))  # [T, B]
        steps = target.shape[1] or tf.shape(target)[1]
        found = tf.TensorArray(decoding.memory.dtype, steps)
        tokens = tf.TensorArray(tf.int32, steps).unstack(tokens)

        def step(time, state, found):
            own = of_step(seed, time + _OF_DECODER)
            features, state = self._features(tokens.read(time)[:, None], state, decoding, own)
            return time + 1, state, found.write(time, features[:, 0])

        loop = (0, self._first_state(decoding, 1), found)
        *_, found = tf.while_loop(lambda time, *_: time < steps, step, loop, maximum_iterations=steps)
        return tf.transpose(found.stack(), [1, 0, 2])


def _resized(encoded: Encoded, lengths: tf.Tensor, size: int | tf.Tensor) -> Encoded:
    """The sources in memories of `lengths` [B] positions, in tensors of `size`."""
    more = size - (encoded.embedded.shape[1] or tf.shape(encoded.embedded)[1])
    return Encoded(tf.pad(encoded.embedded, [[0, 0], [0, more], [0, 0]]), lengths)


def _count(real: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(real, tf.int32), 1)


KINDS = {"neural_gpu": NeuralGPU, "markovian": MarkovianNeuralGPU, "extended": ExtendedNeuralGPU}
