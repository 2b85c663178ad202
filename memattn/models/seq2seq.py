"""The sequence-to-sequence model: encoder, bridge, decoder with attention, output layer."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from memattn import attention as attention_mechanisms
from memattn.attention.ops import cast
from memattn.attention.options import check_choice
from memattn.data.vocabulary import BOS, PAD
from memattn.models.bridge import BackwardBridge, Cells, DenseBridge, ZeroBridge
from memattn.models.decoder import Decoder
from memattn.models.dropout import split
from memattn.models.encoder import Encoder
from memattn.models.interface import Alternative
from memattn.models.rnnsearch import RNNsearchDecoder
from memattn.models.stepper import Stepper

_OF_ATTENTION = 1  # makes the attention's seed of the encoder's


BRIDGES = {"zero": ZeroBridge, "dense": DenseBridge, "backward": BackwardBridge}
DECODERS = {"lstm": Decoder, "rnnsearch": RNNsearchDecoder}
_CHOICES = {
    "bridge": ("auto", *BRIDGES),
    "tie_embeddings": ("none", "source_target", "all"),
    "encoder": ("lstm", "gru"),
    "decoder": tuple(DECODERS),
}


class Encoded(NamedTuple):
    """What decoding needs of a batch of sources: the attention's memory, the first state of each decoder layer."""

    memory: dict[str, tf.Tensor]
    cells: Cells


class Decoding(NamedTuple):
    """What all decoder steps of a batch of sources share; `output` is the output layer's kernel and bias."""

    memory: dict[str, tf.Tensor]
    stepper: Stepper
    token_table: tf.Tensor
    output: tuple[tf.Tensor, tf.Tensor]


@tf.keras.utils.register_keras_serializable("memattn")
class Seq2Seq(tf.keras.Model):
    """The model of the paper and its baselines. All arguments are keywords, named as in the config file.

    Args:
      vocabulary_size: V, shared by source and target, the special ids of `memattn.data.vocabulary` included.
      max_source_length: S of Eq. 10, the longest source of the training set with its end of sentence.
      layers, units: of the decoder, and of the encoder in each direction.
      encoder_units: width of the encoder in each direction; `units` by default.
      embedding_size: E.
      dropout: rate on the input of every cell.
      init_scale: initial weights are uniform on +-init_scale.
      input_feeding, mix: see `Decoder`.
      bridge: "zero", "dense" or "backward"; "auto" is dense for a mechanism that reads nothing, backward for
        rnnsearch, else zero.
      tie_embeddings: "source_target" shares the embedding matrix, "all" the output layer's as well.
      attention: {"name": a registered mechanism, and its options}.
      encoder: "lstm" or "gru".
      decoder: "lstm" or "rnnsearch", which has one layer, always feeds and mixes what it reads, in its own way.

    Raises ValueError, "ARGUMENT: what is wrong", for an unknown choice, an option out of range, or more than one layer
    where there may be only one; TypeError for an option that the mechanism does not have.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        max_source_length: int,
        layers: int,
        units: int,
        embedding_size: int,
        dropout: float,
        init_scale: float,
        input_feeding: bool,
        mix: bool,
        bridge: str,
        tie_embeddings: str,
        attention: dict,
        encoder_units: int | None = None,
        encoder: str = "lstm",
        decoder: str = "lstm",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not isinstance(attention, Mapping) or "name" not in attention:
            raise ValueError(f"attention: expected a mechanism such as {{'name': 'bahdanau'}}, not {attention!r}")
        self._arguments = {
            "vocabulary_size": vocabulary_size,
            "max_source_length": max_source_length,
            "layers": layers,
            "units": units,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "init_scale": init_scale,
            "input_feeding": input_feeding,
            "mix": mix,
            "bridge": bridge,
            "tie_embeddings": tie_embeddings,
            "attention": dict(attention),
            "encoder_units": encoder_units,
            "encoder": encoder,
            "decoder": decoder,
        }
        for name, choices in _CHOICES.items():
            check_choice(name, self._arguments[name], choices)
        self.vocabulary_size, self.max_source_length = vocabulary_size, max_source_length
        uniform = {"class_name": "RandomUniform", "config": {"minval": -init_scale, "maxval": init_scale}}
        options = {key: value for key, value in attention.items() if key != "name"}
        self.attention = attention_mechanisms.build(
            attention["name"],
            {**options, "dtype": self.dtype_policy},
            units=units,
            max_source_length=max_source_length,
            initializer=uniform,
        )
        self.source_embedding = tf.keras.layers.Embedding(
            vocabulary_size,
            embedding_size,
            embeddings_initializer=uniform,
            dtype=self.dtype_policy,
            name="source_embedding",
        )
        self.target_embedding = (
            tf.keras.layers.Embedding(
                vocabulary_size,
                embedding_size,
                embeddings_initializer=uniform,
                dtype=self.dtype_policy,
                name="target_embedding",
            )
            if tie_embeddings == "none"
            else self.source_embedding
        )
        self.encoder = Encoder(
            layers=layers,
            units=encoder_units or units,
            cell=encoder,
            dropout=dropout,
            initializer=uniform,
            dtype=self.dtype_policy,
            name="encoder",
        )
        if bridge == "auto":
            bridge = ("backward" if decoder == "rnnsearch" else "zero") if self.has_alignments else "dense"
        if layers > 1 and (decoder == "rnnsearch" or bridge == "backward"):
            raise ValueError(f"layers: decoder rnnsearch and bridge backward are for one layer, not {layers}")
        self.bridge = BRIDGES[bridge](
            layers=layers,
            units=units,
            parts=1 if decoder == "rnnsearch" else 2,
            dtype=self.dtype_policy,
            name="bridge",
            **{} if bridge == "zero" else {"initializer": uniform},
            **{"encoder_units": self.encoder.units} if bridge == "backward" else {},
        )
        self.decoder = DECODERS[decoder](
            attention=self.attention,
            units=units,
            dropout=dropout,
            initializer=uniform,
            dtype=self.dtype_policy,
            name="decoder",
            **{"layers": layers, "input_feeding": input_feeding, "mix": mix} if decoder == "lstm" else {},
        )
        self.tied_output = tie_embeddings == "all"
        if self.tied_output:
            self.output_bias = self.add_weight(shape=(vocabulary_size,), initializer="zeros", name="output_bias")
        else:
            self.output_layer = tf.keras.layers.Dense(
                vocabulary_size, kernel_initializer=uniform, dtype=self.dtype_policy, name="output"
            )
        self._build_layers()

    def _build_layers(self) -> None:
        """Makes all weights; the arguments determine every width."""
        embedded = (None, None, self.source_embedding.output_dim)
        for embedding in (self.source_embedding, self.target_embedding):
            if not embedding.built:
                embedding.build((None, None))
        self.encoder.build(embedded)
        states, final_state = self.encoder.compute_output_shape(embedded)
        self.bridge.build(final_state)
        memory = {"values": states}
        self.decoder.build(embedded, memory)
        if not self.tied_output:
            features, _ = self.decoder.compute_output_shape(embedded, memory)
            self.output_layer.build(features)
        self.built = True

    def build(self, source_shape=None, target_shape=None):
        self.built = True  # in the constructor

    @property
    def has_alignments(self) -> bool:
        """Whether its attention weighs source positions."""
        return self.attention.context_size(2 * self.encoder.units) > 0

    def encode(self, source: tf.Tensor, seed: tf.Tensor | None = None) -> Encoded:
        """Reads source ids [B, S], padded with PAD; `seed` [2] turns dropout on."""
        mask = tf.not_equal(source, PAD)
        states, final_state = self.encoder(self.source_embedding(source), mask, seed)
        if seed is None:
            memory = self.attention.memorize(states, mask)
        else:
            own = tf.random.experimental.stateless_fold_in(seed, _OF_ATTENTION)
            memory = self.attention.memorize_in_training(states, mask, own)
        return Encoded(memory, self.bridge(final_state))

    def alternatives(self, encoded: Encoded, ratio: float | None) -> list[Alternative]:
        """Returns the one encoding that a search decodes."""
        del ratio
        return [Alternative(encoded)]

    def token_table(self) -> tf.Tensor:
        """Computes what each token adds to the gates of the first decoder cell [V, G]: embedding x kernel + bias."""
        return self.decoder.gates(tf.cast(self.target_embedding.embeddings, self.compute_dtype))

    def start(
        self, encoded: Encoded, num_queries: int, token_table: tf.Tensor, selected: tf.Tensor | None = None
    ) -> tuple[Decoding, dict[str, Any]]:
        """Returns what all decoder steps share, and the first state with `num_queries` queries per source.

        `token_table` comes from `token_table()`. With token ids `selected` [N], `step` computes logits of these only.
        """
        memory, cells = encoded
        stepper = self.decoder.stepper(memory, fold=True)
        decoding = Decoding(memory, stepper, token_table, self._output(selected))
        return decoding, stepper.initial_state(cells, num_queries)

    def step(self, tokens: tf.Tensor, state: dict, decoding: Decoding) -> tuple[tf.Tensor, tf.Tensor, dict]:
        """Logits [B, Q, V or N] of the token after `tokens` [B, Q], attention scores [B, Q, M], and the next state."""
        gates = tf.gather(decoding.token_table, tokens)
        outputs, contexts, scores, state = decoding.stepper(gates, state)
        return logits_of(decoding.stepper.read_out(outputs, contexts), decoding.output), scores, state

    def attention_weights(self, decoding: Decoding, scores: tf.Tensor) -> tf.Tensor:
        """Weights of the source positions [B, Q, S] for scores [B, Q, M]."""
        return self.attention.alignments(decoding.memory, scores)

    def call(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Logits [B, T, V] under teacher forcing: position t is predicted from the target [B, T] before t.

        `seed` [2] turns dropout on.
        """
        encoder_seed, decoder_seed = split(seed, 2)
        return self.decode(self.encode(source, encoder_seed), target, decoder_seed)

    def decode(self, encoded: Encoded, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """The part of `call` after `encode`."""
        return logits_of(self._teacher_forced(encoded, target, seed)[0], self._output())

    def decode_and_read(
        self, encoded: Encoded, target: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """As `decode`, with what each step reads [B, T, D]: its context divided by the sum of its source weights.

        Where weights may be negative, it is the context itself.
        """
        features, scores = self._teacher_forced(encoded, target, seed)
        contexts = tf.matmul(scores, encoded.memory["values"])
        if not self.attention.has_signed_weights:
            weights = tf.reduce_sum(self.attention.alignments(encoded.memory, scores), -1, keepdims=True)
            contexts = tf.math.divide_no_nan(contexts, weights)
        return logits_of(features, self._output()), contexts

    def alignments(self, source: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Weights of source positions [B, T, S] at each step of `target`, and each memory slot's share of them
        [B, K, T, S]; K = 0 if the memory has no slots."""
        length = source.shape[1] or tf.shape(source)[1]
        maximum = max if isinstance(length, int) else tf.maximum
        padding = maximum(0, (self.attention.num_slots or 0) - length)  # a source shorter than K reads no slots
        encoded = self.encode(tf.pad(source, [[0, 0], [0, padding]], constant_values=PAD))
        memory, (_, scores) = encoded.memory, self._teacher_forced(encoded, target, None)
        slots = [
            self.attention.alignments(memory, scores * tf.one_hot(k, scores.shape[-1], dtype=scores.dtype))
            for k in range(scores.shape[-1] if self.attention.num_slots else 0)
        ]
        combined = self.attention.alignments(memory, scores)
        slots = tf.stack(slots, 1) if slots else tf.zeros_like(combined)[:, None][:, :0]
        return combined[:, :, :length], slots[:, :, :, :length]

    def _teacher_forced(self, encoded, target, seed):
        return self.decoder(self.target_embedding(shifted(target)), encoded.cells, encoded.memory, seed)

    def _output(self, selected: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Kernel [F, V] and bias [V] of the output layer, or their columns for the ids `selected` [N]."""
        if self.tied_output:
            kernel, bias = tf.transpose(tf.convert_to_tensor(self.target_embedding.embeddings)), self.output_bias
        else:
            kernel, bias = self.output_layer.kernel, self.output_layer.bias
        return columns_of(kernel, bias, self.compute_dtype, selected)

    def get_config(self):
        return {**self._arguments, "name": self.name, "dtype": self.dtype_policy.name}


def shifted(target: tf.Tensor) -> tf.Tensor:
    """What the decoder reads of targets [B, T] under teacher forcing: each token one step later, after BOS."""
    return tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BOS)


def columns_of(
    kernel: tf.Tensor | tf.Variable, bias: tf.Tensor | tf.Variable, dtype: str, selected: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Kernel [F, V] and bias [V] of an output layer in `dtype`, or their columns for the ids `selected` [N]."""
    kernel, bias = (cast(weight, dtype) for weight in (kernel, bias))
    if selected is None:
        return kernel, bias
    return tf.gather(kernel, selected, axis=1), tf.gather(bias, selected)


def logits_of(features: tf.Tensor, output: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    """Logits [B, Q, V] of features [B, Q, F]."""
    kernel, bias = output
    return tf.tensordot(features, kernel, 1) + bias
