"""The sequence-to-sequence model: encoder, bridge, decoder with attention, output layer."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from memattn import attention as mechanisms
from memattn import model_rules
from memattn.attention.configured import python_values
from memattn.attention.initializers import Initializer
from memattn.attention.options import check_choice
from memattn.data.lexicon import Selection
from memattn.models.active_encoder import ActiveMemoryEncoder
from memattn.models.attentive_decoder import AttentiveDecoder
from memattn.models.bridge import BackwardBridge, Cells, DenseBridge, ZeroBridge
from memattn.models.decoder import Decoder
from memattn.models.dropout import fold_in, split_seed
from memattn.models.encoder import CELLS, Encoder, num_states
from memattn.models.gru_decoder import GRUDecoder
from memattn.models.interface import Alternative, MemoryRatio, no_shares
from memattn.models.rnnsearch import RNNsearchDecoder
from memattn.models.sources import FeatureReader, TokenReader
from memattn.models.stepper import ATTENTION_SEED, Stepper
from memattn.models.tokens import OutputWeights, output_weights, shift_right

_SOURCE_SEED = 2  # number that `fold_in` gets for the source reader's seed

BRIDGES = {"zero": ZeroBridge, "dense": DenseBridge, "backward": BackwardBridge}
ENCODERS = {**dict.fromkeys(CELLS, Encoder), "cgru": ActiveMemoryEncoder}
DECODERS: dict[str, type[AttentiveDecoder]] = {"lstm": Decoder, "gru": GRUDecoder, "rnnsearch": RNNsearchDecoder}
_CHOICES = {
    "bridge": ("auto", *BRIDGES),
    "tie_embeddings": ("none", "source_target", "all"),
    "encoder": tuple(ENCODERS),
    "decoder": tuple(DECODERS),
}


class Encoded(NamedTuple):
    """A batch of encoded sources.

    Attributes:
      memory: the attention mechanism's memory.
      cells: the decoder's initial state.
    """

    memory: dict[str, tf.Tensor]
    cells: Cells


class Decoding(NamedTuple):
    """Values that every decoder step of a batch uses.

    Attributes:
      memory: the attention mechanism's memory.
      stepper: runs the decoder's steps.
      token_table: [V, G], as `Seq2Seq.token_table` returns it.
      output: weights of the output layer.
    """

    memory: dict[str, tf.Tensor]
    stepper: Stepper
    token_table: tf.Tensor
    output: OutputWeights


@tf.keras.utils.register_keras_serializable("memattn")
class Seq2Seq(tf.keras.Model):
    """The model of the paper and its baselines. All arguments are keywords, named as in the config file.

    Args:
      vocabulary_size: V, shared by source and target, the special ids of `memattn.data.vocabulary` included.
      max_source_length: length of the longest source of the training set, with its end of sentence if it has tokens.
        The encoder's number of states for this length is S of Eq. 10.
      layers, units: number and width of the layers, in the decoder and in each direction of the encoder.
      encoder_layers: number of layers in each direction of the encoder, or of cells of "cgru"; `layers` by default.
      encoder_units: width of the encoder in each direction, or half the number of maps of "cgru"; `units` by default.
      encoder_reduce: factors of the encoder's first layers, in order: so many neighbouring outputs of a layer are
        joined into one. At most `encoder_layers` - 1 factors.
      embedding_size: E, the width of source and target embeddings.
      dropout: rate on the input of every cell; of "cgru", on its first memory, once per source.
      init_scale: initial weights are uniform on +-init_scale, except in the cells of "cgru".
      input_feeding: the decoder reads the previous context beside each token.
      mix: a tanh layer on [h; c] comes before the logits.
      bridge: "zero", "dense" or "backward". "auto" is dense without attention, backward for rnnsearch, otherwise zero.
      tie_embeddings: "source_target" shares one embedding matrix; "all" also gives it to the output layer.
      attention: {"name": a registered mechanism, and its options}.
      encoder: cells of the encoder, "lstm" or "gru"; or "cgru", active memory (`ActiveMemoryEncoder`).
      decoder: "lstm", "gru" or "rnnsearch". The last has one layer, and its own forms of input feeding and mixing.
      source_features: F, where sources are vectors [B, S, F] padded with NaN; None where they are token ids.
      spec_augment: number of masks of time, and of masks of frequency, in each source of vectors in training.

    Raises:
      ValueError: "ARGUMENT: PROBLEM", for an unknown choice, an option out of range, or one that does not fit others.
      TypeError: the mechanism has no option of a given name.
      ImportError: the class of a mechanism outside the package cannot be imported.
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
        encoder_layers: int | None = None,
        encoder_units: int | None = None,
        encoder_reduce: Sequence[int] = (),
        encoder: str = "lstm",
        decoder: str = "lstm",
        source_features: int | None = None,
        spec_augment: int = 0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not isinstance(attention, Mapping) or "name" not in attention:
            raise ValueError(f"attention: expected a mechanism such as {{'name': 'bahdanau'}}, not {attention!r}")
        # Keras takes no integers of NumPy, and JSON no scalars of NumPy.
        self._arguments: dict[str, Any] = python_values(
            {
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
                "encoder_layers": encoder_layers,
                "encoder_units": encoder_units,
                "encoder_reduce": tuple(encoder_reduce),
                "encoder": encoder,
                "decoder": decoder,
                "source_features": source_features,
                "spec_augment": spec_augment,
            }
        )
        for name, choices in _CHOICES.items():
            check_choice(name, self._arguments[name], choices)
        if misfit := model_rules.first_problem(self._arguments, reads_tokens=source_features is None):
            raise ValueError(": ".join(misfit))
        vocabulary_size, max_source_length, layers, units, embedding_size, *others = self._arguments.values()
        dropout, init_scale, input_feeding, mix = others[:4]
        attention, encoder_reduce = self._arguments["attention"], self._arguments["encoder_reduce"]
        self.vocabulary_size, self.max_source_length = vocabulary_size, max_source_length
        # The order in which layers are made decides what a seed draws for them, and the order of the optimizer's state.
        uniform = {"class_name": "RandomUniform", "config": {"minval": -init_scale, "maxval": init_scale}}
        options = {key: value for key, value in attention.items() if key != "name"}
        self.attention = mechanisms.build(
            attention["name"],
            {**options, "dtype": self.dtype_policy},
            units=units,
            max_source_length=num_states(max_source_length, encoder_reduce),
            initializer=uniform,
        )
        if source_features is None:
            self.source_embedding = self._embedding("source_embedding", embedding_size, uniform)
        else:
            self.source_embedding = FeatureReader(
                self._arguments["source_features"],
                spec_augment=self._arguments["spec_augment"],
                dtype=self.dtype_policy,
                name="source_embedding",
            )
        self.target_embedding = (
            self._embedding("target_embedding", embedding_size, uniform)
            if tie_embeddings == "none"
            else self.source_embedding
        )
        self.encoder = ENCODERS[encoder](
            layers=self._arguments["encoder_layers"] or layers,
            units=self._arguments["encoder_units"] or units,
            cell=encoder,
            dropout=dropout,
            initializer=uniform,
            dtype=self.dtype_policy,
            name="encoder",
            **({"reduce": encoder_reduce} if encoder in CELLS else {}),
        )
        self.bridge = self._make_bridge(bridge, decoder, layers, units, uniform)
        stack_options: dict[str, Any] = {"layers": layers, "input_feeding": input_feeding, "mix": mix}
        self.decoder = DECODERS[decoder](
            attention=self.attention,
            units=units,
            dropout=dropout,
            initializer=uniform,
            dtype=self.dtype_policy,
            name="decoder",
            **({} if decoder == "rnnsearch" else stack_options),
        )
        self.tied_output = tie_embeddings == "all"
        if self.tied_output:
            self.output_bias = self.add_weight(shape=(vocabulary_size,), initializer="zeros", name="output_bias")
        else:
            self.output_layer = tf.keras.layers.Dense(
                vocabulary_size, kernel_initializer=uniform, dtype=self.dtype_policy, name="output"
            )
        self._build_layers()

    def _embedding(self, name: str, size: int, initializer: Initializer) -> TokenReader:
        return TokenReader(
            self.vocabulary_size, size, embeddings_initializer=initializer, dtype=self.dtype_policy, name=name
        )

    def _make_bridge(
        self, kind: str, decoder: str, layers: int, units: int, initializer: Initializer
    ) -> tf.keras.layers.Layer:
        if kind == "auto":
            kind = DECODERS[decoder].default_bridge if self.has_alignments else "dense"
        options: dict[str, Any] = {} if kind == "zero" else {"initializer": initializer}
        if kind == "backward":
            options["encoder_units"] = self.encoder.units
        parts = DECODERS[decoder].state_parts
        return BRIDGES[kind](layers=layers, units=units, parts=parts, dtype=self.dtype_policy, name="bridge", **options)

    def _build_layers(self) -> None:
        """Makes all weights."""
        source, target = ((None, None, each.output_dim) for each in (self.source_embedding, self.target_embedding))
        for embedding in (self.source_embedding, self.target_embedding):
            if not embedding.built:
                embedding.build((None, None))
        self.encoder.build(source)
        states, final_state = self.encoder.compute_output_shape(source)
        self.bridge.build(final_state)
        memory = {"values": states}
        self.decoder.build(target, memory)
        features, _ = self.decoder.compute_output_shape(target, memory)
        if not self.tied_output:
            self.output_layer.build(features)
        self.built = True

    def build(self, source_shape=None, target_shape=None):
        self.built = True  # the constructor made the weights

    @property
    def has_alignments(self) -> bool:
        """Whether the attention mechanism weighs source positions."""
        return self.attention.context_size(2 * self.encoder.units) > 0

    def encode(self, source: tf.Tensor, seed: tf.Tensor | None = None, jit_compile: bool = False) -> Encoded:
        """Encodes a padded batch of sources.

        `seed` [2] turns dropout on. With `jit_compile`, XLA compiles the loops of the encoder's LSTMs on a CPU.
        """
        inputs, mask = self.source_embedding(source, fold_in(seed, _SOURCE_SEED)), self.source_embedding.mask(source)
        states, final_state = self.encoder(inputs, mask, seed, jit_compile=jit_compile)
        mask = self.encoder.state_mask(mask)
        if seed is None:
            memory = self.attention.memorize(states, mask)
        else:
            memory = self.attention.memorize_in_training(states, mask, fold_in(seed, ATTENTION_SEED))
        return Encoded(memory, self.bridge(final_state))

    def state_mask(self, source: tf.Tensor) -> tf.Tensor:
        """Returns a mask [B, P] of the encoder's states, false for padding."""
        return self.encoder.state_mask(self.source_embedding.mask(source))

    def alternatives(self, encoded: Encoded, ratio: MemoryRatio) -> list[Alternative]:
        """Returns the only alternative that a search decodes. `ratio` concerns other models."""
        del ratio
        return [Alternative(encoded)]

    def token_table(self) -> tf.Tensor:
        """Returns what each token adds to the gates of the first decoder cell [V, G].

        With the decoder rnnsearch, it also holds what a token adds to the maxout layer.
        """
        return self.decoder.gates(tf.cast(self.target_embedding.embeddings, self.compute_dtype))

    def start(
        self, encoded: Encoded, num_queries: int, token_table: tf.Tensor, selected: Selection | None = None
    ) -> tuple[Decoding, dict[str, Any]]:
        """Returns what all decoder steps share, and the initial state with `num_queries` hypotheses of each source.

        `step` computes logits of all tokens, or only of the selected ones.
        """
        memory, cells = encoded
        stepper = self.decoder.stepper(memory, fold=True)
        decoding = Decoding(memory, stepper, token_table, self._output(selected))
        return decoding, stepper.initial_state(cells, num_queries)

    def step(self, tokens: tf.Tensor, state: dict, decoding: Decoding) -> tuple[tf.Tensor, tf.Tensor, dict]:
        """Returns logits [B, Q, V or N] after `tokens` [B, Q], attention scores [B, Q, M], and the next state."""
        result = decoding.stepper(tf.gather(decoding.token_table, tokens), state)
        features = decoding.stepper.read_out(result.outputs, result.contexts)
        return decoding.output.logits(features), result.scores, result.state

    def attention_weights(self, decoding: Decoding, scores: tf.Tensor) -> tf.Tensor:
        """Returns weights of the encoder's states [B, Q, P] for scores [B, Q, M]."""
        return self.attention.alignments(decoding.memory, scores)

    def call(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns logits [B, T, V] under teacher forcing: those of position t depend on the target [B, T] before t.

        `seed` [2] turns dropout on.
        """
        encoder_seed, decoder_seed = split_seed(seed, 2)
        return self.teacher_forced_logits(self.encode(source, encoder_seed), target, decoder_seed)

    def teacher_forced_logits(self, encoded: Encoded, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns logits [B, T, V] under teacher forcing, for what `encode` returned."""
        features, _ = self._teacher_forced(encoded, target, seed)
        return self._output().logits(features)

    def teacher_forced_logits_and_contexts(
        self, encoded: Encoded, target: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns logits [B, T, V] under teacher forcing, and the mean source state of each step [B, T, D].

        The mean is the step's context over the sum of its weights of source positions; if these may be negative, it is
        the context.
        """
        features, scores = self._teacher_forced(encoded, target, seed)
        contexts = tf.matmul(scores, encoded.memory["values"])
        if not self.attention.has_signed_weights:
            weights = tf.reduce_sum(self.attention.alignments(encoded.memory, scores), -1, keepdims=True)
            contexts = tf.math.divide_no_nan(contexts, weights)
        return self._output().logits(features), contexts

    def alignments(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns weights of the source positions [B, T, S] under teacher forcing."""
        encoded = self.encode(source)
        _, scores = self._teacher_forced(encoded, target, None)
        return self._by_source_position(self.attention.alignments(encoded.memory, scores), source)

    def slot_shares(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns each memory slot's share of the alignments [B, K, T, S]; K = 0 for a memory without slots."""
        if not self.attention.num_slots:
            return no_shares(source, target)
        length, least = source.shape[1] or tf.shape(source)[1], self.attention.num_slots * self.encoder.reduction
        # With at least K states, the memory holds the slots, not the states of a short source.
        missing = max(0, least - length) if isinstance(length, int) else tf.maximum(0, least - length)
        encoded = self.encode(self.source_embedding.lengthened(source, missing))
        _, scores = self._teacher_forced(encoded, target, None)  # [B, T, K]
        batch, steps, slots = tf.unstack(tf.shape(scores))
        single_slots = tf.reshape(tf.linalg.diag(scores), [batch, steps * slots, slots])
        shares = self.attention.alignments(encoded.memory, single_slots)
        shares = tf.reshape(shares, [batch, steps, slots, tf.shape(shares)[-1]])
        return self._by_source_position(tf.transpose(shares, [0, 2, 1, 3]), source)

    def _by_source_position(self, weights: tf.Tensor, source: tf.Tensor) -> tf.Tensor:
        """Returns weights of states [..., P] shared out equally to the positions that a state stands for [..., S].

        Padding gets none.
        """
        reduction, mask = self.encoder.reduction, tf.cast(self.source_embedding.mask(source), weights.dtype)
        length = source.shape[1] or tf.shape(source)[1]
        states = -(-length // reduction)
        mask = tf.pad(mask, [[0, 0], [0, states * reduction - length]])
        mask = tf.reshape(mask, [tf.shape(mask)[0], *[1] * (weights.shape.rank - 2), states, reduction])
        shares = tf.math.divide_no_nan(mask, tf.reduce_sum(mask, -1, keepdims=True))
        positions = weights[..., :states, None] * shares
        shape = tf.concat([tf.shape(weights)[:-1], [states * reduction]], 0)
        return tf.ensure_shape(tf.reshape(positions, shape)[..., :length], [*weights.shape[:-1], source.shape[1]])

    def _teacher_forced(
        self, encoded: Encoded, target: tf.Tensor, seed: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the inputs of the output layer [B, T, F], and attention scores [B, T, M]."""
        return self.decoder(self.target_embedding(shift_right(target)), encoded.cells, encoded.memory, seed)

    def _output(self, selected: Selection | None = None) -> OutputWeights:
        """Returns the weights of the output layer, for all tokens or for the selected ones."""
        if self.tied_output:
            kernel, bias = tf.transpose(tf.convert_to_tensor(self.target_embedding.embeddings)), self.output_bias
        else:
            kernel, bias = self.output_layer.kernel, self.output_layer.bias
        return output_weights(kernel, bias, self.compute_dtype, selected)

    def get_config(self):
        return {**self._arguments, "name": self.name, "dtype": self.dtype_policy.name}
