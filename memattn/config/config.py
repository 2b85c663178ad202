"""Turns a YAML file and command-line overrides into one checked, frozen configuration.

The defaults are the settings of the paper's copy task (Britz, Guan & Luong, 2017, section 4.1). Every error names
the file, the line, the dotted key, the value and what would be right.
"""

import dataclasses
import inspect
import os
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import yaml

from memattn import reading
from memattn.attention import MECHANISMS, OptionError
from memattn.attention.options import MODEL_FACTS, constructor_parameters
from memattn.attention.registry import is_reference
from memattn.config import aliases
from memattn.config.schema import Source, build, choice, listed, nearest, not_one_of, number, parse, value_of, written
from memattn.errors import ConfigError, DataError, reason, short, shown

_ARITHMETIC = ("addition", "multiplication")
_OF_ACTIVE_MEMORY = ("width", "cell")
_NO_ATTENTION = {"name": "none"}
_OF_ANY_KIND = ("kind", "layers", "units", "dropout")


@dataclasses.dataclass(frozen=True)
class CopyConfig:
    """The copy task of section 4.1: sources of uniformly drawn symbols, written by training where they are missing."""

    # L; lengths are uniform on 0 to L: of sources, in lookup of keys, in arithmetic of the longer number
    max_length: int = number(20, at_least=1)
    num_symbols: int = number(20, at_least=1)  # V, different symbols
    train_examples: int = number(100_000, at_least=1)  # pairs to train on
    valid_examples: int = number(1_000, at_least=1)  # pairs to validate on
    seed: int = number(1, at_least=0, below=2**31)  # seed of symbols and lengths

    @property
    def name(self) -> str:
        return "copy"

    @property
    def settings(self) -> dict[str, Any]:
        """What the corpus depends on."""
        return {name: getattr(self, name) for name in sorted(CopyConfig.__dataclass_fields__)}

    @property
    def folder(self) -> str:
        sizes = f"L{self.max_length}_V{self.num_symbols}_N{self.train_examples}_{self.valid_examples}"
        return f"data/{self.name}_{sizes}_s{self.seed}"


@dataclasses.dataclass(frozen=True)
class TaskConfig(CopyConfig):
    """A task whose targets follow from the sources by a rule, written by training where they are missing."""

    # copy: the source; reverse: its symbols backwards; sort: in ascending order; lookup: up to L keys in random order,
    # each before its value; the target has the values in the order of the keys; selective_copy: the few symbols
    # that the source marks; duplicate: the source twice; addition, multiplication: of two numbers of up to L
    # digits in base num_symbols, the lowest digit first, with leading zeros
    name: Literal["copy", "reverse", "sort", "lookup", "selective_copy", "duplicate", "addition", "multiplication"] = (
        "copy"
    )
    marked: int = number(4, at_least=1)  # selective_copy: symbols that are marked, where the source is not shorter
    uneven: bool = False  # addition, multiplication: in half of the pairs, one number has fewer digits than the other

    @property
    def settings(self) -> dict[str, Any]:
        own = {} if self.name == "copy" else {"name": self.name}
        if self.name == "selective_copy":
            own["marked"] = self.marked
        if self.uneven:
            own["uneven"] = True
        return {**super().settings, **own}

    @property
    def folder(self) -> str:
        settings = self.settings
        marked = f"_m{self.marked}" if "marked" in settings else ""
        return f"{super().folder}{marked}{'_uneven' if 'uneven' in settings else ''}"


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The corpus: give `data.folder`, a task, or both."""

    # folder of a prepared corpus; with a task, null names a folder under data/ after its settings
    folder: str | None = None
    copy: CopyConfig | None = None  # the copy task; null: no task, or data.task
    task: TaskConfig | None = None  # another task; null: no task, or data.copy
    num_buckets: int = number(4, at_least=1)  # padded lengths in use; XLA compiles once for each
    # in tokens, with the end of sentence, which `memattn-prepare --max_length` does not count: training skips pairs
    # with a longer source
    max_source_length: int | None = number(None, at_least=1)
    max_target_length: int | None = number(None, at_least=1)  # the same for targets

    @property
    def path(self) -> str:
        return self.folder or self.generated.folder

    @property
    def generated(self) -> CopyConfig | None:
        """The task whose corpus training writes; None: a corpus that was prepared."""
        return self.task or self.copy


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Encoder, decoder and attention mechanism."""

    # seq2seq: an encoder and a decoder; the others are of active memory (docs/active_memory.md), where `units` are the
    # maps, `layers` the cells, `dropout` the cells', and `width` and `cell` are the only other keys
    kind: Literal["seq2seq", "neural_gpu", "markovian", "extended"] = "seq2seq"
    width: int = number(4, at_least=1)  # active memory: columns w of the memory
    # active memory: the convolutional GRU of Kaiser & Bengio (2016), their residual cell, or the diagonal one of
    # Freivalds & Liepins (2017)
    cell: Literal["cgru", "residual", "dngpu"] = "cgru"
    # cells of the encoder; gru: those of Cho et al. (2014)
    encoder: Literal["lstm", "gru"] = "lstm"
    # lstm: the paper's; rnnsearch: that of Bahdanau et al. (2015), one layer, whose GRU reads before it moves
    decoder: Literal["lstm", "rnnsearch"] = "lstm"
    layers: int = number(2, at_least=1)  # layers of the decoder, and of the encoder in each direction
    units: int = number(256, at_least=1)  # U, the width of a layer
    encoder_units: int | None = number(None, at_least=1)  # width of the encoder in each direction; null: units
    embedding_size: int = number(256, at_least=1)  # E, the width of source and target embeddings
    dropout: float = number(0.2, at_least=0, below=1)  # rate on every cell's input, a fresh mask each step
    init_scale: float = number(0.04, above=0)  # a: weights start uniform on -a to a
    input_feeding: bool = True  # the decoder reads the previous context beside each token
    mix: bool = True  # a tanh layer on [h; c] before the logits; false: Eq. 3 as printed
    # the decoder's first state: zeros; a dense layer on the encoder's last states; backward: a tanh layer on the
    # backward encoder's state at the first token; auto: dense without attention, backward for rnnsearch, else zero
    bridge: Literal["auto", "zero", "dense", "backward"] = "auto"
    # which matrices are one: none; source and target embeddings; these and the output layer's
    tie_embeddings: Literal["none", "source_target", "all"] = "none"
    # `name` chooses the mechanism; the other keys are its own (below)
    attention: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"name": "memory"})


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Loss, optimizer, validation, checkpoints and stopping."""

    seed: int = number(1, at_least=0, below=2**31)  # seed of weights, order and dropout
    batch_size: int = number(128, at_least=1)  # size of a batch, all replicas together
    # what batch_size counts: sentence pairs, or tokens of the longer side, padding included
    batch_type: Literal["sentences", "tokens"] = "sentences"
    accumulate: int = number(1, at_least=1)  # batches in one update
    loss: str = choice("cross_entropy", "memattn.training.loss:LOSSES")  # what updates minimize
    optimizer: str = choice("adam", "memattn.training.optimizers:OPTIMIZERS")  # optimizer, by its name in Keras
    # more arguments of the optimizer in Keras, such as {momentum: 0.9} of sgd
    optimizer_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    learning_rate: float = number(1e-4, above=0, below=3.4e38)  # rate of the optimizer, before the schedule
    # epsilon of adam, and of the other optimizers that have one; google/seq2seq's example configs have 8e-7
    adam_epsilon: float = number(1e-7, at_least=1e-30, below=1)
    # the course of the learning rate. inverse_sqrt: rises, then falls with the root of the step; linear: falls to 0 at
    # max_steps; plateau: falls when validation does not improve
    schedule: str = choice("constant", "memattn.training.schedules:SCHEDULES")
    warmup_steps: int = number(4_000, at_least=1)  # inverse_sqrt: updates in which the rate rises from 0
    decay_factor: float = number(0.5, above=0, below=1)  # plateau: multiplies the rate
    decay_patience: int = number(1, at_least=1)  # plateau: validations without a better one before the rate falls
    label_smoothing: float = number(0.0, at_least=0, below=1)  # probability spread over the whole vocabulary
    # what layers compute in; weights are float32 in any case
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    clip_norm: float = number(5.0, above=0)  # the greatest norm of all gradients together
    max_steps: int = number(200_000, at_least=1)  # updates of the weights, at most
    max_bad_steps: int = number(10, at_least=0)  # skipped updates (loss not finite) in a row; more end training
    log_every: int = number(100, at_least=1)  # updates between lines of output
    validate_every: int = number(1_000, at_least=1)  # updates between validations
    validation_beam_size: int = number(1, at_least=1, below=1000)  # beam size in validation; 1 is greedy decoding
    checkpoint_every: int = number(1_000, at_least=1)  # updates between checkpoints
    checkpoint_minutes: float = number(30.0, above=0)  # minutes after which a checkpoint is written in any case
    keep_checkpoints: int = number(3, at_least=1)  # last checkpoints that are kept, beside the best one
    # tells the best checkpoint; patience, stop_at and plateau go by it; where its values are equal, exact match decides
    metric: str = choice("bleu", "memattn.evaluation.metrics:METRICS")
    stop_at: float | None = None  # training ends when the metric reaches it in validation
    stop_at_bleu: float | None = number(None, above=0)  # training ends when validation BLEU reaches it
    patience: int | None = number(None, at_least=1)  # training ends after so many validations without a better one
    # fine-tuning: a run folder; training begins with its best weights, and the data needs its vocabulary
    init_from: str | None = None
    # distillation: the run folder of a model with the same encoder; training begins with that encoder, and the model's
    # contexts pull the student's in the first updates (docs/slots.md)
    teacher: str | None = None
    # of the contexts' mean squared difference, at the first update; 0: the teacher gives its encoder alone
    teacher_weight: float = number(1.0, at_least=0, below=3.4e38)
    teacher_steps: int = number(1_000, at_least=1)  # updates in which the weight falls to 0
    # compile by XLA; auto: from TensorFlow 2.20 on, but for bfloat16 on a CPU and for active memory
    jit_compile: bool | Literal["auto"] = "auto"


@dataclasses.dataclass(frozen=True)
class SampleConfig:
    """Sampling, as for back-translation: `n_best` hypotheses of each source are drawn, independent of each other."""

    top_k: int | None = number(None, at_least=1)  # draw from the k likeliest tokens; null: from all
    top_p: float | None = number(None, above=0, below=1)  # from the likeliest that have this probability together
    # divides the logits; below 1, likely tokens become likelier
    temperature: float = number(1.0, at_least=1e-6, below=1e30)
    seed: int = number(1, at_least=0, below=2**31)  # with a sentence's number, decides what is drawn


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
    """Beam search, or sampling."""

    beam_size: int = number(10, at_least=1, below=1000)  # k, hypotheses of a source
    batch_size: int = number(32, at_least=1)  # sources searched at once
    # a: scores are divided by ((5 + tokens) / 6)^a, the end of sentence not counted
    length_penalty: float = number(0.0, at_least=0)
    coverage_penalty: float = number(0.0, at_least=0)  # b: scores gain b sum_s log(min(attention to s, 1)), below 0
    # greatest length of a hypothesis as a multiple of its source's, both with the end of sentence
    max_length_ratio: float = number(2.0, above=0, below=1000)
    # greatest length of a hypothesis, with the end of sentence; the smaller limit holds
    max_length: int | None = number(None, at_least=1)
    # memattn-translate: tokens of a line, without the end of sentence; null: twice the longest training source
    max_source_length: int | None = number(None, at_least=1)
    # memattn-translate: what becomes of a line of more tokens. split: into pieces at ends of sentences and words; cut:
    # the rest is dropped; refuse: an error
    long_lines: Literal["split", "cut", "refuse"] = "split"
    # a hypothesis never has the same so many tokens in a row twice (docs/search.md); null or 0: it may
    no_repeat_ngram_size: int | None = number(None, at_least=0)
    n_best: int = number(1, at_least=1)  # hypotheses that are returned, at most beam_size (where none are sampled)
    sample: SampleConfig | None = None  # sample in place of a search; null: beam search
    # active memory: length of the memory as a multiple of the source's; null: every length from the source's to twice
    # that is tried, and the likeliest hypothesis kept (validation uses one ratio, which fits 19 of 20 targets)
    memory_ratio: float | None = number(None, at_least=1, below=100)
    # vocabulary selection: file of `memattn-prepare lexicon`; null: a hypothesis may have any token
    lexicon: str | None = None
    lexicon_size: int = number(50, at_least=1)  # translations of each source token that are selected
    # nested_memory: its first slots that are used; null: all
    num_slots: int | None = number(None, at_least=1)
    # what layers compute in; null: as in training
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] | None = None
    # compile by XLA; auto: from TensorFlow 2.20 on, but for bfloat16 on a CPU and for active memory
    jit_compile: bool | Literal["auto"] = "auto"


@dataclasses.dataclass(frozen=True)
class SweepConfig:
    """The runs: every cell, and every point of each of the grids, with every point of the grid."""

    grid: Mapping[str, list] = dataclasses.field(default_factory=dict)  # dotted keys with lists of values
    grids: list = dataclasses.field(default_factory=list)  # a list of grids; the runs are the union of their points
    cells: list = dataclasses.field(default_factory=list)  # a list of mappings of dotted keys to values


@dataclasses.dataclass(frozen=True)
class Config:
    """One run, and the sweep it may belong to."""

    data: DataConfig
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    decoding: DecodingConfig = dataclasses.field(default_factory=DecodingConfig)
    sweep: SweepConfig | None = None


def load(path: str, overrides: list[str]) -> Config:
    """Reads `path`, applies `key=value` overrides and checks everything. Raises ConfigError.

    A config with `base`, the path of another relative to its own, holds what it changes of that one.
    """
    source = Source(path)
    tree = _read(path, source)
    changes = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {short(override)}: write --set key=value, e.g. --set model.units=128")
        flag = Source(f"--set {short(key)}")
        changes[key] = parse(text, flag)
        source.replace(key, f"--set {short(override)}")
    return checked(apply_changes(tree, changes, source), source)


def _read(path: str, source: Source, readers: tuple[str, ...] = ()) -> dict:
    """The tree of a file with that of its base below it, lines noted in `source`. Raises ConfigError."""
    try:
        text = reading.text(path, reading.LARGEST_CONFIG)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the config: {error.strerror}") from error
    except DataError as error:
        raise ConfigError(str(error)) from error
    file_source = Source(path)
    tree = parse(text, file_source)
    if tree is None:
        raise ConfigError(f"{path}: the config is empty; it needs at least a `data` section")
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: a config is a mapping with the sections data, model, training, decoding, sweep")
    base = tree.pop("base", None)
    if base is None:
        source.lines.update(file_source.lines)
        return tree
    if not isinstance(base, str):
        raise file_source.error("base", f"expected the path of another config, not {shown(base)}")
    base_path = os.path.normpath(os.path.join(os.path.dirname(path), base))
    if base_path in (path, *readers):
        raise file_source.error("base", f"{short(base)} leads back to this file")
    if not os.path.isfile(base_path):
        raise file_source.error("base", f"no such file: {short(base_path)}")
    below = _read(base_path, source, (path, *readers))
    source.lines.update(file_source.lines)
    return _merged(below, tree)


def _merged(below: Mapping, above: Mapping, key: str = "") -> dict:
    """Two trees as one: sections are merged, but for a sweep and for the options of another mechanism."""
    replaced = key == "model.attention" and above.get("name", below.get("name")) != below.get("name")
    if replaced or key == "sweep":
        return dict(above)
    merged = dict(below)
    for name, value in above.items():
        both = isinstance(value, Mapping) and isinstance(below.get(name), Mapping)
        merged[name] = _merged(below[name], value, f"{key}.{name}".lstrip(".")) if both else value
    return merged


def apply_changes(tree: dict, changes: Mapping[str, Any], source: Source | None = None) -> dict:
    """A copy of `tree` with dotted keys set; another `model.attention.name` drops the former mechanism's keys."""
    source = source or Source("sweep")
    tree = _deep_copy(tree)
    for key in sorted(changes, key=lambda key: (key.count("."), not key.endswith(".name"))):
        *parents, last = key.split(".")
        node = tree
        for depth, parent in enumerate(parents):
            if node.get(parent) is None:
                node[parent] = {}
            node = node[parent]
            if not isinstance(node, dict):
                raise source.error(key, f"{short('.'.join(parents[: depth + 1]))} is a value, not a section")
        if key == "model.attention.name" and node.get("name") != changes[key]:
            node.clear()
        node[last] = _deep_copy(changes[key])
    return tree


def to_dict(config: Config) -> dict:
    """One run as plain values, the sweep left out: what a run folder keeps and what two runs are compared by."""
    tree = _deep_copy(dataclasses.asdict(config))
    del tree["sweep"]
    return tree


def from_dict(tree: dict) -> Config:
    """The config of a tree of `to_dict`; keys that it lacks get their defaults. Raises ConfigError."""
    return checked(tree, Source("config"))


def dump(config: Config) -> str:
    return yaml.safe_dump(to_dict(config), sort_keys=False)


class Difference(NamedTuple):
    """A dotted key in which two trees of `to_dict` differ, with both values; as a str, in one line."""

    key: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        theirs, ours = (short(written(value)) for value in (self.theirs, self.ours))
        return f"{short(self.key)} ({theirs} there, {ours} here)"


def differences(one: dict, other: dict, prefix: str = "") -> list[Difference]:
    """The dotted keys in which two trees of `to_dict` differ, theirs first.

    Of two mechanisms, the options are left out that only one has.
    """
    differing, keys = [], dict.fromkeys([*one, *other])
    if one.get("name") != other.get("name"):
        keys = [key for key in keys if key in one and key in other]
    for key in keys:
        a, b = one.get(key), other.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            differing += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            differing.append(Difference(f"{prefix}{key}", a, b))
    return differing


def checked(tree: dict, source: Source) -> Config:
    """The config of a tree, every value checked, defaults filled in. Raises ConfigError."""
    config = build(Config, {"data": {}, **tree}, "", source)
    _check_sweep(config.sweep or SweepConfig(), source)
    data, model = config.data, config.model
    if not data.folder and data.generated is None:
        missing = "" if "data" in tree else "missing; "
        raise source.error("data", f"{missing}give data.folder (a prepared corpus), data.copy or data.task")
    if data.task:
        _check_task(data.task, source)
    if data.copy and data.task:
        raise source.error("data.task", "given beside data.copy, which is the task copy; one of them has to be null")
    if config.training.teacher and config.training.init_from:
        raise source.error("training.teacher", "given beside training.init_from; give one of them")
    if config.training.teacher and model.kind != "seq2seq":
        raise source.error("training.teacher", f"needs model.kind: seq2seq, not {model.kind}")
    _check_decoding(config.decoding, model.kind, source)
    _check_model(model, source)
    attention = _attention(model.attention, source) if model.kind == "seq2seq" else dict(_NO_ATTENTION)
    _check_attention(attention, model, config.decoding.num_slots, source)
    config = dataclasses.replace(config, model=dataclasses.replace(model, attention=attention))
    return config if model.kind == "seq2seq" else _without_xla(config)


def _check_decoding(decoding: DecodingConfig, kind: str, source: Source) -> None:
    if kind == "seq2seq" and decoding.memory_ratio:
        raise source.error("decoding.memory_ratio", "is for active memory, not for model.kind: seq2seq")
    if kind != "seq2seq" and decoding.sample and not decoding.memory_ratio:
        raise source.error("decoding.memory_ratio", "decoding.sample needs one with active memory; give 1 or more")
    if kind != "seq2seq" and decoding.coverage_penalty:
        raise source.error("decoding.coverage_penalty", f"needs attention; model.kind: {kind} has none")
    if decoding.sample and decoding.coverage_penalty:
        raise source.error("decoding.coverage_penalty", "is for beam search; decoding.sample has no use for it")
    if (n_best := decoding.n_best) > decoding.beam_size and not decoding.sample:
        raise source.error("decoding.n_best", f"{n_best} is more than decoding.beam_size = {decoding.beam_size}")


def _check_attention(attention: dict, model: ModelConfig, decoded_slots: int | None, source: Source) -> None:
    """What the mechanism's options and other keys have to do with each other."""
    mechanism = MECHANISMS[attention["name"]]
    if decoded_slots and not hasattr(mechanism, "keep"):
        raise source.error("decoding.num_slots", "needs model.attention.name: nested_memory, whose slots can be cut")
    if decoded_slots and decoded_slots > attention["num_slots"]:
        slots = f"{decoded_slots} is more than model.attention.num_slots = {attention['num_slots']}"
        raise source.error("decoding.num_slots", slots)
    width = 2 * (model.encoder_units or model.units)
    if mechanism.equal_widths and width != model.units:
        wide = f"{attention['name']} needs states as wide as model.units = {model.units}, not {width}"
        raise source.error("model.attention", f"{wide}; set model.encoder_units to half of it, or use luong")


def _check_task(task: TaskConfig, source: Source) -> None:
    arithmetic = task.name in _ARITHMETIC
    if arithmetic and task.num_symbols < 2:
        raise source.error("data.task.num_symbols", f"is the base of {task.name}; at least 2, not 1")
    if task.uneven and not arithmetic:
        raise source.error("data.task.uneven", f"is for {' and '.join(_ARITHMETIC)}, not {task.name}")
    if task.marked != TaskConfig.marked and task.name != "selective_copy":
        raise source.error("data.task.marked", f"is for selective_copy, not {task.name}")


def _without_xla(config: Config) -> Config:
    """`jit_compile: auto` is false for active memory: XLA's convolutions take several times as long on a CPU."""
    sections = {name: getattr(config, name) for name in ("training", "decoding")}
    chosen = {
        name: dataclasses.replace(section, jit_compile=False)
        for name, section in sections.items()
        if section.jit_compile == "auto"
    }
    return dataclasses.replace(config, **chosen)


def _check_model(model: ModelConfig, source: Source) -> None:
    active = model.kind != "seq2seq"
    for key, default in vars(ModelConfig()).items():
        if key in _OF_ANY_KIND or active == (key in _OF_ACTIVE_MEMORY):
            continue
        defaults = (default, _NO_ATTENTION, _attention(default, source)) if key == "attention" else (default,)
        if getattr(model, key) not in defaults:
            kinds = "a kind of active memory" if key in _OF_ACTIVE_MEMORY else "seq2seq"
            raise source.error(f"model.{key}", f"is for {kinds}, not for model.kind: {model.kind}")
    if model.decoder == "rnnsearch":
        for key, wanted in {"layers": 1, "input_feeding": True, "mix": True}.items():
            if getattr(model, key) != wanted:
                raise source.error(f"model.{key}", f"must be {str(wanted).lower()} with model.decoder: rnnsearch")
        if model.units % 2:
            raise source.error("model.units", f"must be even with model.decoder: rnnsearch, not {model.units}")
    if model.bridge == "backward" and model.layers > 1:
        raise source.error("model.bridge", f"backward is for model.layers: 1, not {model.layers}")
    features = model.units // 2 if model.decoder == "rnnsearch" else model.units
    if model.tie_embeddings == "all" and not (model.mix and model.embedding_size == features):
        wanted = "half of model.units" if model.decoder == "rnnsearch" else "model.units"
        raise source.error(
            "model.tie_embeddings",
            f"'all' needs model.mix: true and model.embedding_size = {wanted}, "
            f"not mix: {str(model.mix).lower()}, {model.embedding_size} and {features}",
        )


def _check_sweep(sweep: SweepConfig, source: Source) -> None:
    for name in ("grids", "cells"):
        for i, one in enumerate(getattr(sweep, name)):
            if not isinstance(one, dict) or not one:
                raise source.error(
                    f"sweep.{name}[{i}]", f"expected a mapping of dotted keys to values, not {shown(one)}"
                )
            for key in one:
                if key in sweep.grid:
                    raise source.error(f"sweep.{name}[{i}].{key}", "in sweep.grid too; give it in one of them")
    for key, grid in (("grid", sweep.grid), *((f"grids[{i}]", grid) for i, grid in enumerate(sweep.grids))):
        for name, values in grid.items():
            if not isinstance(values, list) or not values:
                raise source.error(f"sweep.{key}.{name}", f"expected a list of one value or more, not {shown(values)}")


def _attention(section: Mapping, source: Source) -> dict:
    """The section checked against the keyword arguments of the mechanism that it names, defaults filled in."""
    key = "model.attention"
    section = aliases.current(section, key, source)
    name = section.get("name", "memory")
    if not (isinstance(name, str) and name in MECHANISMS) and not is_reference(name):
        raise source.error(f"{key}.name", not_one_of(name, list(MECHANISMS)))
    try:
        mechanism = MECHANISMS[name]
    except ImportError as error:
        raise source.error(f"{key}.name", f"{short(name)}: {reason(error)}") from error
    try:
        parameters = mechanism_parameters(mechanism)
    except ConfigError as error:
        raise source.error(f"{key}.name", str(error)) from error
    options = {}
    for option, value in section.items():
        if option == "name":
            continue
        if option not in parameters:
            keys = f"its keys: {listed(parameters)}" if parameters else "it has no keys"
            raise source.error(f"{key}.{option}", f"unknown key for {name}; {nearest(option, parameters)}{keys}")
        if parameters[option].annotation is inspect.Parameter.empty:
            raise source.error(f"{key}.{option}", f"the argument of {mechanism.__name__} has no annotation to check by")
        options[option] = value_of(parameters[option].annotation, value, f"{key}.{option}", source, {})
    for option, parameter in parameters.items():
        if option not in options and parameter.default is parameter.empty:
            raise source.error(f"{key}.{option}", f"missing; {name} needs it")
        options.setdefault(option, parameter.default)
    try:
        mechanism.validate(options)
    except OptionError as error:
        raise source.error(f"{key}.{error.option}", error.problem) from error
    except ValueError as error:
        raise source.error(key, str(error)) from error
    return {"name": name, **options}


def mechanism_parameters(mechanism: type) -> dict[str, inspect.Parameter]:
    """The arguments of a mechanism's constructor that a config sets. Raises ConfigError for an unusable annotation."""
    parameters = {name: one for name, one in constructor_parameters(mechanism).items() if name not in MODEL_FACTS}
    for name, parameter in parameters.items():
        if isinstance(parameter.annotation, str):  # postponed, and not to be evaluated
            problem = f"the annotation {parameter.annotation!r} of argument {name} cannot be evaluated"
            raise ConfigError(f"{mechanism.__name__}: {problem}")
    return parameters


def _deep_copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _deep_copy(item) for key, item in value.items()}
    return [_deep_copy(item) for item in value] if isinstance(value, (list, tuple)) else value
