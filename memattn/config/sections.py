"""The dataclasses of a config, one for each mapping of the YAML, with its keys and their defaults.

The defaults are the settings of the paper's copy task (Britz, Guan & Luong, 2017, section 4.1). The comment beside or
above a key is its description in docs/reference/configuration.md.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from memattn.config.schema import choice, number


@dataclasses.dataclass(frozen=True)
class CopyConfig:
    """The paper's copy task: uniform random symbols. Training writes the corpus if it does not exist."""

    key: ClassVar[str] = "data.copy"

    # L: lengths are uniform on 0 to L. A length is the number of symbols in a source; for lookup, of keys; for
    # arithmetic, of digits in the longer operand
    max_length: int = number(20, at_least=1)
    num_symbols: int = number(20, at_least=1)  # V, the number of different symbols
    train_examples: int = number(100_000, at_least=1)  # pairs to train on
    valid_examples: int = number(1_000, at_least=1)  # pairs to validate on
    seed: int = number(1, at_least=0, below=2**31)  # seed of symbols and lengths

    @property
    def name(self) -> str:
        """Name of the task."""
        return "copy"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the task's corpus depends on."""
        return {name: getattr(self, name) for name in sorted(field.name for field in dataclasses.fields(CopyConfig))}

    @property
    def folder(self) -> str:
        """Default folder of the corpus, different for different settings."""
        sizes = f"L{self.max_length}_V{self.num_symbols}_N{self.train_examples}_{self.valid_examples}"
        return f"data/{self.name}_{sizes}_s{self.seed}"


@dataclasses.dataclass(frozen=True)
class TaskConfig(CopyConfig):
    """A task whose targets follow from the sources by a rule. Training writes the corpus if it does not exist."""

    key: ClassVar[str] = "data.task"

    # copy: the target is the source; reverse: the source backwards; sort: the source's symbols in ascending order;
    # lookup: the source has up to L keys in random order, each before its value, and the target has the values in the
    # order of the keys; selective_copy: the target is the few symbols that the source marks; duplicate: the source
    # twice; addition, multiplication: the result for two numbers of up to L digits in base num_symbols, the lowest
    # digit first, with leading zeros
    name: str = choice("copy", "memattn.data.tasks:TASKS")
    marked: int = number(4, at_least=1)  # for selective_copy: number of marked symbols; in a shorter source, all are
    uneven: bool = False  # for addition, multiplication: in half of the pairs, one operand has fewer digits

    @property
    def settings(self) -> dict[str, Any]:
        settings = super().settings
        if self.name != "copy":
            settings["name"] = self.name
        if self.name == "selective_copy":
            settings["marked"] = self.marked
        if self.uneven:
            settings["uneven"] = True
        return settings

    @property
    def folder(self) -> str:
        marked = f"_m{self.marked}" if self.name == "selective_copy" else ""
        return f"{super().folder}{marked}{'_uneven' if self.uneven else ''}"


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The corpus: give `data.folder`, a task, or both."""

    # folder of a prepared corpus; null, with a task: a folder under data/, named after the task's settings
    folder: str | None = None
    copy: CopyConfig | None = None  # the copy task; null: data.task, or no task
    task: TaskConfig | None = None  # any other task; null: data.copy, or no task
    # what sources are. tokens: text; features: sequences of vectors, such as `memattn-prepare speech` writes
    source: str = choice("tokens", "memattn.data.corpus:READERS")
    num_buckets: int = number(4, at_least=1)  # number of different padded lengths; XLA compiles once for each
    # training skips pairs with a longer source. The length includes the end of sentence, unlike
    # `memattn-prepare --max_length`; that of features is their number of vectors
    max_source_length: int | None = number(None, at_least=1)
    max_target_length: int | None = number(None, at_least=1)  # training skips pairs with a longer target

    @property
    def generated(self) -> CopyConfig | None:
        """The task whose corpus training writes; None for a prepared corpus."""
        return self.task or self.copy

    @property
    def path(self) -> str:
        """Folder of the corpus."""
        if self.folder:
            return self.folder
        if self.generated is None:
            raise ValueError("data: needs a folder, copy or task")
        return self.generated.folder


@dataclasses.dataclass(frozen=True)
class Seq2SeqConfig:
    """Encoder, decoder and attention mechanism."""

    has_memory_length: ClassVar[bool] = False  # whether `decoding.memory_ratio` applies

    kind: Literal["seq2seq"] = "seq2seq"  # an encoder and a decoder; the other kinds have keys of their own
    # cells of the encoder. gru: as in Cho et al. (2014); cgru: active memory in place of recurrent layers. Its time and
    # memory grow with the square of the source's length (docs/results/neural_gpu.md)
    encoder: str = choice("lstm", "memattn.models.seq2seq:ENCODERS")
    # lstm: as in the paper; gru: the same with GRUs; rnnsearch: the decoder of Bahdanau et al. (2015), one GRU layer
    # whose previous state is the query of attention
    decoder: str = choice("lstm", "memattn.models.seq2seq:DECODERS")
    layers: int = number(2, at_least=1)  # layers of the decoder, and of the encoder in each direction
    units: int = number(256, at_least=1)  # U, the width of a layer
    # layers of the encoder in each direction, or cells of cgru; null: layers
    encoder_layers: int | None = number(None, at_least=1)
    # width of the encoder in each direction, or half the number of maps of cgru; null: units
    encoder_units: int | None = number(None, at_least=1)
    # numbers of neighbouring outputs that are joined after the first layer of the encoder, the second and so on: [2, 2]
    # shortens sources to a quarter (Chan et al., 2016)
    encoder_reduce: list = dataclasses.field(default_factory=list)
    embedding_size: int = number(256, at_least=1)  # E, the width of source and target embeddings
    # dropout rate of every cell's input, with a new mask each step; of cgru, of the first memory, once per source
    dropout: float = number(0.2, at_least=0, below=1)
    # for data.source: features, number of masks of time, and of masks of frequency, in each source in training; 0: none
    # (SpecAugment, Park et al., 2019)
    spec_augment: int = number(0, at_least=0, below=100)
    # a: initial weights are uniform on -a to a, except in cells of cgru
    init_scale: float = number(0.04, above=0)
    input_feeding: bool = True  # the decoder reads the previous context beside each token
    mix: bool = True  # a tanh layer on [h; c] before the logits; false: Eq. 3 as in the paper
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


@dataclasses.dataclass(frozen=True)
class NeuralGPUConfig:
    """Active memory: a Neural GPU (docs/results/neural_gpu.md)."""

    has_memory_length: ClassVar[bool] = True

    # neural_gpu: computes all outputs at once; markovian: each output depends on the one before; extended: a decoder
    # of cells with an output tape
    kind: Literal["neural_gpu", "markovian", "extended"] = "neural_gpu"
    # cgru: the convolutional GRU of Kaiser & Bengio (2016); residual: their residual cell; dngpu: the diagonal cell of
    # Freivalds & Liepins (2017)
    cell: str = choice("cgru", "memattn.models.neural_gpu.cells:CELLS")
    width: int = number(4, at_least=1)  # w, columns of the memory
    layers: int = number(2, at_least=1)  # cells that update the memory one after the other at each step
    units: int = number(256, at_least=1)  # m, feature maps of the memory
    dropout: float = number(0.2, at_least=0, below=1)  # dropout rate in the cells


ModelConfig: TypeAlias = Seq2SeqConfig | NeuralGPUConfig


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Loss, optimizer, validation, checkpoints and stopping."""

    seed: int = number(1, at_least=0, below=2**31)  # seed of initial weights, order of the pairs and dropout
    batch_size: int = number(128, at_least=1)  # size of a batch, all replicas together
    # unit of batch_size: sentence pairs, or tokens (or vectors) of the longer side, padding included
    batch_type: Literal["sentences", "tokens"] = "sentences"
    accumulate: int = number(1, at_least=1)  # batches in one training step
    loss: str = choice("cross_entropy", "memattn.training.loss:LOSSES")  # loss that training minimizes
    optimizer: str = choice("adam", "memattn.training.optimizers:OPTIMIZERS")  # optimizer of Keras
    # further arguments of the optimizer in Keras, such as {momentum: 0.9} for sgd
    optimizer_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    learning_rate: float = number(1e-4, above=0, below=3.4e38)  # learning rate before the schedule
    # epsilon of adam, and of the other optimizers that have one; google/seq2seq's example configs have 8e-7
    adam_epsilon: float = number(1e-7, at_least=1e-30, below=1)
    # learning rate over training. inverse_sqrt: rises, then falls with the square root of the step; linear: falls to 0
    # at max_steps; plateau: falls when validation does not improve
    schedule: str = choice("constant", "memattn.training.optimizers:SCHEDULES")
    warmup_steps: int = number(4_000, at_least=1)  # for inverse_sqrt: training steps in which the rate rises from 0
    decay_factor: float = number(0.5, above=0, below=1)  # for plateau: factor that multiplies the rate
    decay_patience: int = number(1, at_least=1)  # for plateau: validations without improvement before the rate falls
    min_learning_rate: float = number(1e-8, at_least=0)  # for plateau: rate at which it stops falling
    label_smoothing: float = number(0.0, at_least=0, below=1)  # probability spread over the whole vocabulary
    # type that layers compute in; weights are always float32
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    clip_norm: float = number(5.0, above=0)  # upper bound on the norm of all gradients together
    max_steps: int = number(200_000, at_least=1)  # upper bound on training steps
    # upper bound on training steps in a row that are skipped because loss or gradient is not finite; more end training
    max_bad_steps: int = number(10, at_least=0)
    log_every: int = number(100, at_least=1)  # training steps between lines of output
    validate_every: int = number(1_000, at_least=1)  # training steps between validations
    validation_beam_size: int = number(1, at_least=1, below=1000)  # beam size in validation; 1 is greedy decoding
    checkpoint_every: int = number(1_000, at_least=1)  # training steps between checkpoints
    checkpoint_minutes: float = number(30.0, above=0)  # a checkpoint is written at the latest after so many minutes
    keep_checkpoints: int = number(3, at_least=1)  # number of latest checkpoints that are kept, beside the best one
    # metric of validation that chooses the best checkpoint (between equal values, exact match decides), and that
    # patience, stop_at and plateau use
    metric: str = choice("bleu", "memattn.evaluation.metrics:METRICS")
    stop_at: float | None = None  # training ends when the metric reaches this value in validation
    patience: int | None = number(None, at_least=1)  # training ends after so many validations without improvement
    # fine-tuning: run folder whose best weights training starts from; the data needs the vocabulary of that run
    init_from: str | None = None
    # distillation: run folder of a teacher with the same encoder; training starts from the teacher's encoder and, for
    # teacher_steps, also minimizes the distance to the teacher's contexts (docs/results/slots.md)
    teacher: str | None = None
    # initial weight of the distance to the teacher's contexts, a mean squared difference; 0: only the teacher's encoder
    # is used
    teacher_weight: float = number(1.0, at_least=0, below=3.4e38)
    teacher_steps: int = number(1_000, at_least=1)  # training steps in which teacher_weight falls to 0
    # compile with XLA; auto: from TensorFlow 2.20 on, but not for bfloat16 on a CPU or for Neural GPUs
    jit_compile: bool | Literal["auto"] = "auto"


@dataclasses.dataclass(frozen=True)
class SampleConfig:
    """Sampling, as for back-translation: draws `n_best` hypotheses of each source, independent of each other."""

    top_k: int | None = number(None, at_least=1)  # draw from the k most probable tokens; null: from all
    # draw from the most probable tokens that together have this probability; null: from all
    top_p: float | None = number(None, above=0, below=1)
    # divides the logits; below 1, probable tokens become more probable
    temperature: float = number(1.0, at_least=1e-6, below=1e30)
    seed: int = number(1, at_least=0, below=2**31)  # seed of the samples, combined with each sentence's number


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
    """Beam search, or sampling."""

    beam_size: int = number(10, at_least=1, below=1000)  # k, hypotheses of a source
    batch_size: int = number(32, at_least=1)  # sources searched at once
    # a: scores are divided by ((5 + tokens) / 6)^a, with tokens counted without the end of sentence
    length_penalty: float = number(0.0, at_least=0)
    # b: b sum_s log(min(a_s, 1)) is added to scores. a_s is the sum, over steps, of the share of source token s in the
    # absolute attention weights of a step
    coverage_penalty: float = number(0.0, at_least=0)
    # upper bound on the length of a hypothesis, as a multiple of the source's; both count the end of sentence. The
    # length of a source is the number of the encoder's states, which model.encoder_reduce lowers
    max_length_ratio: float = number(2.0, above=0, below=1000)
    # further upper bound on the length of a hypothesis in tokens, the end of sentence included; null: none
    max_length: int | None = number(None, at_least=1)
    # memattn-translate: upper bound on tokens of a line, without the end of sentence; null: twice the longest source in
    # training
    max_source_length: int | None = number(None, at_least=1)
    # memattn-translate: treatment of a longer line. split: pieces, cut at ends of sentences and words; cut: the rest is
    # dropped; refuse: an error
    long_lines: Literal["split", "cut", "refuse"] = "split"
    # n: no n-gram occurs twice in a hypothesis (docs/guides/evaluation_and_decoding.md); null or 0: n-grams may repeat
    no_repeat_ngram_size: int | None = number(None, at_least=0)
    n_best: int = number(1, at_least=1)  # hypotheses that are returned; in beam search, at most beam_size
    sample: SampleConfig | None = None  # sampling in place of a search; null: beam search
    # for Neural GPUs: length of the memory as a multiple of the source's; null: a search tries every length from the
    # source's to twice that and keeps the most probable hypothesis. Validation uses one ratio, with room for 95% of the
    # targets. estimate: the length that a linear regression on the training pairs predicts from the source's
    memory_ratio: float | Literal["estimate"] | None = number(None, at_least=1, below=100)
    # vocabulary selection: file written by `memattn-prepare lexicon`; null: hypotheses may have any token
    lexicon: str | None = None
    lexicon_size: int = number(50, at_least=1)  # translations of each source token that are selected
    # type that layers compute in; null: as in training
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] | None = None
    # compile with XLA; auto: from TensorFlow 2.20 on, but not for bfloat16 on a CPU or for Neural GPUs
    jit_compile: bool | Literal["auto"] = "auto"


@dataclasses.dataclass(frozen=True)
class SweepConfig:
    """Runs of a sweep: each cell and each point of `grids`, combined with every point of `grid`."""

    grid: Mapping[str, list] = dataclasses.field(default_factory=dict)  # dotted keys with lists of values
    grids: list = dataclasses.field(default_factory=list)  # a list of grids; the runs are the union of their points
    cells: list = dataclasses.field(default_factory=list)  # a list of mappings of dotted keys to values, one per run


@dataclasses.dataclass(frozen=True)
class Config:
    """The settings of a run, and the sweep of runs that change them."""

    data: DataConfig
    model: ModelConfig = dataclasses.field(default_factory=Seq2SeqConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    decoding: DecodingConfig = dataclasses.field(default_factory=DecodingConfig)
    sweep: SweepConfig | None = None
