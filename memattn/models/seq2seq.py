"""The sequence-to-sequence model: encoder, bridge, decoder with attention, output layer."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import tensorflow as tf

from memattn import attention as mechanisms
from memattn.attention.configured import Initializer
from memattn.data.lexicon import Selection
from memattn.data.vocabulary import PAD
from memattn.models.attentive_decoder import AttentiveDecoder, Cells, Stepper
from memattn.models.decoder import Bridge, GRUDecoder, StackDecoder
from memattn.models.dropout import ATTENTION_SEED, SOURCE_SEED, fold_in, split_seed
from memattn.models.embeddings import FeatureReader, OutputWeights, TokenReader, output_weights, shift_right
from memattn.models.encoder import RECURRENT_LAYERS, ActiveMemoryEncoder, RecurrentEncoder
from memattn.models.interface import MemoryLength, MemoryRatio, Model
from memattn.models.rnnsearch import RNNsearchDecoder
from memattn.options import OneOf, Options, PositiveInt, Problems, Range, Rate, raise_first

ENCODERS = {**dict.fromkeys(RECURRENT_LAYERS, RecurrentEncoder), "cgru": ActiveMemoryEncoder}
DECODERS: dict[str, type[AttentiveDecoder]] = {"lstm": StackDecoder, "gru": GRUDecoder, "rnnsearch": RNNsearchDecoder}


@dataclasses.dataclass(frozen=True)
class Seq2SeqConfig(Options):
    """Encoder, decoder and attention mechanism.

    Example:
      >>> import memattn
      >>> config = memattn.Seq2SeqConfig(layers=1, units=128, attention={"name": "memory", "num_slots": 16})
      >>> config.attention["encoder_scoring"]
      'softmax'
      >>> memattn.Seq2SeqConfig(layers=0)
      Traceback (most recent call last):
        ...
      memattn.options.OptionError: layers: must be at least 1, not 0
    """

    has_memory_length: ClassVar[bool] = False  # whether `decoding.memory_ratio` applies

    kind: Literal["seq2seq"] = "seq2seq"  # an encoder and a decoder; the other kinds have keys of their own
    # cells of the encoder. gru: as in Cho et al. (2014); cgru: active memory (docs/results/neural_gpu.md), whose time
    # and memory grow with the square of the source's length
    encoder: Annotated[str, OneOf(ENCODERS)] = "lstm"
    # lstm: as in the paper; gru: the same with GRUs; rnnsearch: the decoder of Bahdanau et al. (2015), one GRU layer
    # whose previous state is the query of attention
    decoder: Annotated[str, OneOf(DECODERS)] = "lstm"
    layers: PositiveInt = 2  # layers of the decoder, and of the encoder in each direction
    units: PositiveInt = 256  # U, the width of a layer
    # layers of the encoder in each direction, or cells of cgru; null: layers
    encoder_layers: PositiveInt | None = None
    # width of the encoder in each direction, or half the number of maps of cgru; null: units
    encoder_units: PositiveInt | None = None
    # numbers of neighbouring outputs that are joined after the first layer of the encoder, the second and so on: [2, 2]
    # shortens sources to a quarter (Chan et al., 2016)
    encoder_reduce: tuple[Annotated[int, Range(at_least=1, at_most=100)], ...] = ()
    embedding_size: PositiveInt = 256  # E, the width of source and target embeddings
    # dropout rate of every cell's input, with a new mask each step; in cgru, of the first memory alone
    dropout: Rate = 0.2
    # for data.source: features, number of masks of time, and of masks of frequency, in each source in training; 0: none
    # (SpecAugment, Park et al., 2019)
    spec_augment: Annotated[int, Range(at_least=0, below=100)] = 0
    # a: initial weights are uniform on -a to a, except in cells of cgru
    init_scale: Annotated[float, Range(above=0)] = 0.04
    input_feeding: bool = True  # the decoder reads the previous context beside each token
    mix: bool = True  # an attention layer, tanh(W [h; c]), before the logits; false: Eq. 3 as in the paper
    # initial state of the decoder. zero: zeros; dense: a dense layer on the encoder's last states (cgru: on the mean of
    # its states); backward: a tanh layer on the backward encoder's state at the first token; auto: dense without
    # attention, backward for rnnsearch, else zero
    bridge: Literal["auto", "zero", "dense", "backward"] = "auto"
    # matrices that are shared: none; the source and target embeddings; both embeddings and the output layer
    tie_embeddings: Literal["none", "source_target", "all"] = "none"
    # `name` chooses the mechanism; the other keys are the mechanism's options (below)
    attention: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"name": "memory"})

    @property
    def layers_of_encoder(self) -> int:
        """Layers of the encoder in each direction."""
        return self.encoder_layers or self.layers

    @property
    def units_of_encoder(self) -> int:
        """Width of a layer of the encoder in each direction."""
        return self.encoder_units or self.units

    @property
    def kind_of_bridge(self) -> str:
        """Name of the bridge: `bridge`, or the choice of `auto`."""
        if self.bridge != "auto":
            return self.bridge
        return DECODERS[self.decoder].default_bridge if self._has_attention else "dense"

    @property
    def _has_attention(self) -> bool:
        return not issubclass(mechanisms.mechanism(self.attention["name"]), mechanisms.NoAttention)

    def __post_init__(self):
        object.__setattr__(self, "attention", mechanisms.complete(self.attention))
        super().__post_init__()

    def problems(self) -> Problems:
        yield from self._problems_of_decoder()
        yield from self._problems_of_encoder()
        yield from self._problems_of_bridge()
        if self.tie_embeddings == "all":
            yield from self._problems_of_tied_output()

    def _problems_of_decoder(self) -> Problems:
        if self.decoder == "rnnsearch":
            for option, needed in {"layers": 1, "input_feeding": True, "mix": True}.items():
                if getattr(self, option) != needed:
                    yield option, f"must be {str(needed).lower()} with decoder: rnnsearch"
            if self.units % 2:
                yield "units", f"must be even with decoder: rnnsearch, not {self.units}"
        name, width = self.attention["name"], 2 * self.units_of_encoder
        if mechanisms.mechanism(name).equal_widths and width != self.units:
            problem = f"{name} needs states as wide as model.units = {self.units}, not {width}"
            yield "attention", f"{problem}; set model.encoder_units to half of it, or use luong"

    def _problems_of_encoder(self) -> Problems:
        if self.encoder_reduce and self.encoder not in RECURRENT_LAYERS:
            yield "encoder_reduce", f"is for encoder: {' or '.join(RECURRENT_LAYERS)}"
        factors, layers = len(self.encoder_reduce), self.layers_of_encoder
        if factors >= layers:
            problem = f"{factors} factors, but {layers} layers have {layers - 1} joints between them"
            yield "encoder_reduce", f"{problem}; raise encoder_layers"

    def _problems_of_bridge(self) -> Problems:
        if self.bridge == "zero" and not self._has_attention:
            yield "bridge", "zero hides the source from a model without attention; take auto or dense"
        if self.kind_of_bridge == "backward":
            bridge = "the bridge backward, which rnnsearch has by default," if self.bridge == "auto" else "backward"
            if self.encoder not in RECURRENT_LAYERS:
                yield "bridge", f"{bridge} is for encoder: {' or '.join(RECURRENT_LAYERS)}; take dense"
            for name, layers in {"layers": self.layers, "encoder_layers": self.layers_of_encoder}.items():
                if layers > 1:
                    yield "bridge", f"{bridge} is for {name}: 1, not {layers}"

    def _problems_of_tied_output(self) -> Problems:
        is_rnnsearch = self.decoder == "rnnsearch"
        size = self.units // 2 if is_rnnsearch else self.units
        if not self.mix:
            yield "tie_embeddings", "all needs mix: true"
        if self.embedding_size != size:
            expected = f"embedding_size: {size}, {'half of units' if is_rnnsearch else 'as units'}"
            yield "tie_embeddings", f"all needs {expected}, not {self.embedding_size}"

    def problems_of_sources(self, *, reads_tokens: bool) -> Problems:
        """Yields options that do not fit sources of tokens or, if these are vectors, sources of vectors."""
        if self.spec_augment and reads_tokens:
            yield "spec_augment", "is for sources of vectors, not of tokens"
        if self.tie_embeddings != "none" and not reads_tokens:
            yield "tie_embeddings", f"{self.tie_embeddings} needs sources of tokens, which have embeddings"


class Encoded(NamedTuple):
    """A batch of encoded sources."""

    memory: dict[str, tf.Tensor]  # the attention mechanism's memory
    cells: Cells  # the decoder's initial state


class Decoding(NamedTuple):
    """Values that every decoder step of a batch uses."""

    stepper: Stepper
    token_table: tf.Tensor  # [V, G], as `Seq2Seq.token_table` returns it
    output: OutputWeights


@tf.keras.utils.register_keras_serializable("memattn")
class Seq2Seq(Model):
    """The model of the paper and its baselines.

    Args:
      config: the options of the model.
      vocabulary_size: V, shared by source and target, the special ids of `memattn.data.vocabulary` included.
      max_source_length: length of the longest source of the training set, with its end of sentence if it has tokens.
        The encoder's number of states for this length is S of Eq. 10.
      source_features: F, where sources are vectors [B, S, F] padded with NaN; None where they are token ids.

    Raises:
      OptionError: "OPTION: PROBLEM", for an option that the sources cannot have.

    Example:
      >>> import memattn
      >>> import tensorflow as tf
      >>> config = memattn.Seq2SeqConfig(layers=1, units=8, embedding_size=8, attention={"name": "memory"})
      >>> model = memattn.Seq2Seq(config, vocabulary_size=20, max_source_length=10)
      >>> source = tf.constant([[4, 5, 6, 2], [7, 2, 0, 0]])  # 2 ends a sentence, 0 is padding
      >>> target = tf.constant([[6, 5, 2], [7, 2, 0]])
      >>> model(source, target).shape  # logits [B, T, V]
      TensorShape([2, 3, 20])
      >>> model.alignments(source, target).shape  # weights of the source positions [B, T, S]
      TensorShape([2, 3, 4])
    """

    config_class = Seq2SeqConfig
    argument_names = (*Model.argument_names, "source_features")

    def __init__(
        self,
        config: Seq2SeqConfig,
        *,
        vocabulary_size: int,
        max_source_length: int,
        source_features: int | None = None,
        **kwargs,
    ):
        super().__init__(config, vocabulary_size=vocabulary_size, max_source_length=max_source_length, **kwargs)
        raise_first(config.problems_of_sources(reads_tokens=source_features is None))
        self.source_features = source_features if source_features is None else int(source_features)
        # The order in which layers are made decides what a seed draws for them, and the order of the optimizer's state.
        scale = config.init_scale
        uniform = {"class_name": "RandomUniform", "config": {"minval": -scale, "maxval": scale}}
        options = {key: value for key, value in config.attention.items() if key != "name"}
        self.attention = mechanisms.build(
            config.attention["name"],
            {**options, "dtype": self.dtype_policy},
            units=config.units,
            max_source_length=-(-self.max_source_length // math.prod(config.encoder_reduce)),  # in states
            initializer=uniform,
        )
        if self.source_features is None:
            self.source_embedding = self._embedding("source_embedding", uniform)
        else:
            self.source_embedding = FeatureReader(
                self.source_features,
                spec_augment=config.spec_augment,
                dtype=self.dtype_policy,
                name="source_embedding",
            )
        self.target_embedding = (
            self._embedding("target_embedding", uniform) if config.tie_embeddings == "none" else self.source_embedding
        )
        common: dict[str, Any] = {"initializer": uniform, "dtype": self.dtype_policy}
        decoder = DECODERS[config.decoder]
        self.encoder = ENCODERS[config.encoder](config, name="encoder", **common)
        self.bridge = Bridge(config, parts=decoder.state_parts, name="bridge", **common)
        self.decoder = decoder(config, self.attention, name="decoder", **common)
        self.tied_output = config.tie_embeddings == "all"
        if self.tied_output:
            self.output_bias = self.add_weight(shape=(self.vocabulary_size,), initializer="zeros", name="output_bias")
        else:
            self.output_layer = tf.keras.layers.Dense(
                self.vocabulary_size, kernel_initializer=uniform, dtype=self.dtype_policy, name="output"
            )
        self._build_layers()

    def _embedding(self, name: str, initializer: Initializer) -> TokenReader:
        size = self.config.embedding_size
        return TokenReader(
            self.vocabulary_size, size, embeddings_initializer=initializer, dtype=self.dtype_policy, name=name
        )

    def _build_layers(self) -> None:
        """Makes all weights."""
        source, target = ((None, None, each.output_dim) for each in (self.source_embedding, self.target_embedding))
        states = (None, None, 2 * self.encoder.units)
        for embedding in (self.source_embedding, self.target_embedding):
            if not embedding.built:
                embedding.build((None, None))
        self.encoder.build(source)
        self.bridge.build((None, self.encoder.final_size))
        self.decoder.build(target, states)
        if not self.tied_output:
            self.output_layer.build((None, None, self.decoder.output_size))
        self.built = True

    @property
    def has_alignments(self) -> bool:
        return self.decoder.context_size > 0

    def encode(self, source: tf.Tensor, seed: tf.Tensor | None = None, jit_compile: bool = False) -> Encoded:
        inputs, mask = self.source_embedding(source, fold_in(seed, SOURCE_SEED)), self.source_embedding.mask(source)
        states, final_state = self.encoder(inputs, mask, seed, jit_compile=jit_compile)
        mask = self.encoder.state_mask(mask)
        if seed is None:
            memory = self.attention.memorize(states, mask)
        else:
            memory = self.attention.memorize_in_training(states, mask, fold_in(seed, ATTENTION_SEED))
        return Encoded(memory, self.bridge(final_state))

    def state_mask(self, source: tf.Tensor) -> tf.Tensor:
        return self.encoder.state_mask(self.source_embedding.mask(source))

    def memory_lengths(self, encoded: Encoded, ratio: MemoryRatio) -> list[MemoryLength]:
        return [MemoryLength(encoded)]

    def token_table(self) -> tf.Tensor:
        """Returns what each token adds to the gates of the first decoder cell [V, G].

        With the decoder rnnsearch, it also holds what a token adds to the maxout layer.
        """
        return self.decoder.gates(tf.cast(self.target_embedding.embeddings, self.compute_dtype))

    def start(
        self, encoded: Encoded, num_queries: int, token_table: tf.Tensor, selected: Selection | None = None
    ) -> tuple[Decoding, dict[str, Any]]:
        stepper = self.decoder.stepper(encoded.memory, for_search=True)
        decoding = Decoding(stepper, token_table, self._output(selected))
        return decoding, stepper.initial_state(encoded.cells, num_queries)

    def step(self, tokens: tf.Tensor, state: dict, decoding: Decoding) -> tuple[tf.Tensor, tf.Tensor, dict]:
        result = decoding.stepper(tf.gather(decoding.token_table, tokens), state)
        features = decoding.stepper.output_features(result.outputs, result.contexts)
        return decoding.output.logits(features), result.weights, result.state

    def attention_weights(self, decoding: Decoding, memory_weights: tf.Tensor) -> tf.Tensor:
        return self.attention.alignments(decoding.stepper.reader.memory, memory_weights)

    def call(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns logits [B, T, V] under teacher forcing: those of position t depend on the target [B, T] before t.

        `seed` [2] turns dropout on.
        """
        encoder_seed, decoder_seed = split_seed(seed, 2)
        return self.teacher_forced_logits(self.encode(source, encoder_seed), target, decoder_seed)

    def teacher_forced_logits(self, encoded: Encoded, target: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        features, _ = self._teacher_forced(encoded, target, seed)
        return self._output().logits(features)

    def teacher_forced_logits_and_contexts(
        self, encoded: Encoded, target: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns logits [B, T, V] under teacher forcing, and contexts [B, T, D].

        The contexts are divided by the sum of the absolute attention weights.
        """
        features, memory_weights = self._teacher_forced(encoded, target, seed)
        contexts = tf.matmul(memory_weights, encoded.memory["values"])
        alignments = self.attention.alignments(encoded.memory, memory_weights)
        contexts = tf.math.divide_no_nan(contexts, tf.reduce_sum(tf.abs(alignments), -1, keepdims=True))
        return self._output().logits(features), contexts

    def alignments(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        encoded = self.encode(source)
        _, memory_weights = self._teacher_forced(encoded, target, None)
        return self._by_source_position(self.attention.alignments(encoded.memory, memory_weights), source)

    def slot_shares(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        if not self.attention.num_slots:
            return tf.zeros([tf.shape(source)[0], 0, tf.shape(target)[1], tf.shape(source)[1]])
        # With at least K states, the memory holds the slots, not the states of a short source.
        added = [[0, 0], [0, self.attention.num_slots * self.encoder.reduction], [0, 0]][: len(source.shape)]
        padding = PAD if self.source_features is None else math.nan
        encoded = self.encode(tf.pad(source, added, constant_values=padding))
        _, slot_weights = self._teacher_forced(encoded, target, None)  # [B, T, K]
        batch, steps, slots = tf.unstack(tf.shape(slot_weights))
        single_slots = tf.reshape(tf.linalg.diag(slot_weights), [batch, steps * slots, slots])
        alignments = self.attention.alignments(encoded.memory, single_slots)
        alignments = tf.reshape(alignments, [batch, steps, slots, tf.shape(alignments)[-1]])
        return self._by_source_position(tf.transpose(alignments, [0, 2, 1, 3]), source)

    def _by_source_position(self, weights: tf.Tensor, source: tf.Tensor) -> tf.Tensor:
        """Returns weights of source positions [..., S] for weights of states [..., P].

        Each weight is divided equally among the positions that the state stands for. Padding gets none.
        """
        reduction, mask = self.encoder.reduction, tf.cast(self.source_embedding.mask(source), weights.dtype)
        length = source.shape[1] or tf.shape(source)[1]
        states = -(-length // reduction)
        mask = tf.pad(mask, [[0, 0], [0, states * reduction - length]])
        mask = tf.reshape(mask, [tf.shape(mask)[0], *[1] * (weights.shape.rank - 2), states, reduction])
        fractions = tf.math.divide_no_nan(mask, tf.reduce_sum(mask, -1, keepdims=True))
        positions = weights[..., :states, None] * fractions
        shape = tf.concat([tf.shape(weights)[:-1], [states * reduction]], 0)
        return tf.ensure_shape(tf.reshape(positions, shape)[..., :length], [*weights.shape[:-1], source.shape[1]])

    def _teacher_forced(
        self, encoded: Encoded, target: tf.Tensor, seed: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the inputs of the output layer [B, T, F], and weights of the memory's values [B, T, M]."""
        return self.decoder(self.target_embedding(shift_right(target)), encoded.cells, encoded.memory, seed)

    def _output(self, selected: Selection | None = None) -> OutputWeights:
        """Returns the weights of the output layer, for all tokens or for the selected ones."""
        if self.tied_output:
            kernel, bias = tf.transpose(tf.convert_to_tensor(self.target_embedding.embeddings)), self.output_bias
        else:
            kernel, bias = self.output_layer.kernel, self.output_layer.bias
        return output_weights(kernel, bias, self.compute_dtype, selected)
