"""Turns a YAML file and command-line overrides into one checked, frozen configuration.

The defaults are the settings of the paper's copy task (Britz, Guan & Luong, 2017, section 4.1). Every error names
the file, the line, the dotted key, the value and what would be right.
"""

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Literal

import yaml

from memattn.errors import ConfigError, reason
from memattn.schema import Source, build, nearest, not_one_of, number, parse, shown, value_of

# What the model gives to a mechanism's constructor by itself, never configuration keys; with values to check by.
MODEL_FACTS = {"units": 1, "max_source_length": 1, "initializer": "zeros"}


@dataclasses.dataclass(frozen=True)
class CopyConfig:
    """The copy task of section 4.1: sources of symbols drawn uniformly, lengths uniform on 0..max_length."""

    max_length: int = number(20, at_least=1)
    num_symbols: int = number(20, at_least=1)
    train_examples: int = number(100_000, at_least=1)
    valid_examples: int = number(1_000, at_least=1)
    seed: int = number(1, at_least=0, below=2**31)

    @property
    def folder(self) -> str:
        sizes = f"L{self.max_length}_V{self.num_symbols}_N{self.train_examples}_{self.valid_examples}"
        return f"data/copy_{sizes}_s{self.seed}"


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Where the prepared corpus lies, and what of it training takes."""

    folder: str | None = None  # with `copy`, its default is named after the copy task's settings
    copy: CopyConfig | None = None
    num_buckets: int = number(4, at_least=1)  # padded lengths in use; each costs one compilation
    max_source_length: int | None = number(None, at_least=1)  # training pairs with a longer source are left out
    max_target_length: int | None = number(None, at_least=1)  # likewise; both lengths with their end of sentence

    @property
    def path(self) -> str:
        return self.folder or self.copy.folder


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Encoder, decoder and attention mechanism."""

    layers: int = number(2, at_least=1)
    units: int = number(256, at_least=1)
    encoder_units: int | None = number(None, at_least=1)  # a direction; null: as `units`
    embedding_size: int = number(256, at_least=1)
    dropout: float = number(0.2, at_least=0, below=1)  # on the input of every cell, a fresh mask each step
    init_scale: float = number(0.04, above=0)  # weights start uniform on +-init_scale
    input_feeding: bool = True  # the previous context joins the input embedding
    mix: bool = True  # tanh of a dense layer on [h; c] before the logits; false is Eq. 3 as printed
    bridge: Literal["auto", "zero", "dense"] = "auto"  # auto: dense without attention, else zero
    tie_embeddings: Literal["none", "source_target", "all"] = "none"  # all: the output layer too
    attention: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"name": "memory"})


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Optimisation by Adam, validation, checkpoints and stopping."""

    seed: int = number(1, at_least=0, below=2**31)
    batch_size: int = number(128, at_least=1)  # over all replicas
    batch_type: Literal["sentences", "tokens"] = "sentences"  # what batch_size counts; tokens: padded, a side
    accumulate: int = number(1, at_least=1)  # batches in one update
    learning_rate: float = number(1e-4, above=0, below=3.4e38)  # of float32
    schedule: Literal["constant", "inverse_sqrt", "linear", "plateau"] = "constant"  # linear: to 0 at max_steps
    warmup_steps: int = number(4_000, at_least=1)  # of inverse_sqrt: rises linearly to learning_rate
    decay_factor: float = number(0.5, above=0, below=1)  # of plateau
    decay_patience: int = number(1, at_least=1)  # plateau: decay after so many validations without a better BLEU
    label_smoothing: float = number(0.0, at_least=0, below=1)  # probability spread over the whole vocabulary
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"  # mixed: computing; weights: float32
    clip_norm: float = number(5.0, above=0)  # of all gradients together
    max_steps: int = number(200_000, at_least=1)
    max_bad_steps: int = number(10, at_least=0)  # in a row left out, as their loss or gradient is not finite
    log_every: int = number(100, at_least=1)  # steps
    validate_every: int = number(1_000, at_least=1)  # steps
    validation_beam_size: int = number(1, at_least=1, below=1000)  # 1 is greedy decoding
    checkpoint_every: int = number(1_000, at_least=1)  # steps
    checkpoint_minutes: float = number(30.0, above=0)
    keep_checkpoints: int = number(3, at_least=1)
    stop_at_bleu: float | None = number(None, above=0)  # end when validation reaches it
    patience: int | None = number(None, at_least=1)  # end after so many validations without a better BLEU
    jit_compile: bool | Literal["auto"] = "auto"  # auto: from TensorFlow 2.20 on


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
    """Beam search."""

    beam_size: int = number(10, at_least=1, below=1000)
    batch_size: int = number(32, at_least=1)  # sources
    length_penalty: float = number(0.0, at_least=0)  # a in ((5 + length) / 6) ^ a
    coverage_penalty: float = number(0.0, at_least=0)  # b in b * sum over the source of log(min(attention, 1))
    max_length_ratio: float = number(2.0, above=0, below=1000)  # hypothesis over source length, both with their end
    max_length: int | None = number(None, at_least=1)  # of a hypothesis with its end; the smaller of the two holds
    n_best: int = number(1, at_least=1)
    jit_compile: bool | Literal["auto"] = "auto"  # auto: from TensorFlow 2.20 on


@dataclasses.dataclass(frozen=True)
class SweepConfig:
    """The runs: every cell with every point of the grid; both map dotted keys to values."""

    grid: Mapping[str, list] = dataclasses.field(default_factory=dict)
    cells: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Config:
    """One run, and the sweep it may belong to."""

    data: DataConfig
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    decoding: DecodingConfig = dataclasses.field(default_factory=DecodingConfig)
    sweep: SweepConfig | None = None


def load(path: str, overrides: list[str], mechanisms: Mapping[str, Callable]) -> Config:
    """Reads `path`, applies `key=value` overrides and checks everything.

    `mechanisms` maps the names allowed in `model.attention.name` to constructors, whose keyword arguments are the
    other keys of that section. Raises ConfigError.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
        text = content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the config: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text: byte 0x{content[error.start]:02x}") from error
    source = Source(path)
    tree = parse(text, source)
    if tree is None:
        raise ConfigError(f"{path}: the config is empty; it needs at least a `data` section")
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: a config is a mapping with the sections data, model, training, decoding, sweep")
    changes = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {override}: write --set key=value, e.g. --set model.units=128")
        flag = Source(f"--set {key}")
        changes[key] = parse(text, flag)
        source.replace(key, f"--set {override}")
    return _checked(apply_changes(tree, changes, source), source, mechanisms)


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
                raise source.error(key, f"{'.'.join(parents[: depth + 1])} is a value, not a section")
        if key == "model.attention.name" and node.get("name") != changes[key]:
            node.clear()
        node[last] = _deep_copy(changes[key])
    return tree


def expand(config: Config, mechanisms: Mapping[str, Callable]) -> dict[str, Config]:
    """The runs of a sweep: name -> configuration, in the order of the cells and of the grid. Raises ConfigError."""
    sweep = config.sweep or SweepConfig()
    base = to_dict(config)
    runs = {}
    for cell in sweep.cells or [{}]:
        for values in itertools.product(*sweep.grid.values()):
            changes = {**cell, **dict(zip(sweep.grid, values, strict=True))}
            name = _run_name(changes) or "run"
            if name in runs:
                raise ConfigError(f"sweep: two of its runs are the same: {name}")
            runs[name] = _checked(apply_changes(base, changes), Source(f"sweep run {name}"), mechanisms)
    return runs


def to_dict(config: Config) -> dict:
    """One run as plain values, the sweep left out: what a run folder keeps and what two runs are compared by."""
    tree = _deep_copy(dataclasses.asdict(config))
    del tree["sweep"]
    return tree


def from_dict(tree: dict, mechanisms: Mapping[str, Callable]) -> Config:
    """The config of a tree of `to_dict`; keys that it lacks get their defaults. Raises ConfigError."""
    return _checked(tree, Source("config"), mechanisms)


def dump(config: Config) -> str:
    return yaml.safe_dump(to_dict(config), sort_keys=False)


def differences(one: dict, other: dict, prefix: str = "") -> list[str]:
    """Dotted keys in which two trees of `to_dict` differ, with both values."""
    lines = []
    for key in [*one, *(key for key in other if key not in one)]:
        a, b = one.get(key), other.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            lines += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            lines.append(f"{prefix}{key} ({a} there, {b} here)")
    return lines


def _checked(tree: dict, source: Source, mechanisms: Mapping[str, Callable]) -> Config:
    if "data" not in tree:
        raise source.error("data", "missing; give data.folder, or data.copy for the copy task")
    config = build(Config, tree, "", source)
    _check_sweep(config.sweep or SweepConfig(), source)
    data, decoding, model = config.data, config.decoding, config.model
    if not data.folder and data.copy is None:
        raise source.error("data", "give data.folder (a prepared corpus) or data.copy (the copy task)")
    if (n_best := decoding.n_best) > decoding.beam_size:
        raise source.error("decoding.n_best", f"{n_best} is more than decoding.beam_size = {decoding.beam_size}")
    if model.tie_embeddings == "all" and not (model.mix and model.embedding_size == model.units):
        raise source.error(
            "model.tie_embeddings",
            f"'all' needs model.mix: true and model.embedding_size = model.units, "
            f"not mix: {str(model.mix).lower()}, {model.embedding_size} and {model.units}",
        )
    return dataclasses.replace(
        config, model=dataclasses.replace(model, attention=_attention(model.attention, source, mechanisms))
    )


def _check_sweep(sweep: SweepConfig, source: Source) -> None:
    for name, values in sweep.grid.items():
        if not isinstance(values, list) or not values:
            raise source.error(f"sweep.grid.{name}", f"expected a list of values, not {shown(values)}")
    for i, cell in enumerate(sweep.cells):
        if not isinstance(cell, dict) or not cell:
            raise source.error(f"sweep.cells[{i}]", f"expected a mapping of dotted keys to values, not {shown(cell)}")


def _attention(section: Mapping, source: Source, mechanisms: Mapping[str, Callable]) -> dict:
    """The section checked against the keyword arguments of the mechanism that it names, defaults filled in."""
    key = "model.attention"
    if "name" not in section:
        raise source.error(f"{key}.name", f"missing; give one of {', '.join(mechanisms)}")
    name = section["name"]
    if name not in list(mechanisms):  # of a list, since a name that is a mapping has no hash
        raise source.error(f"{key}.name", not_one_of(name, list(mechanisms)))
    try:
        mechanism = mechanisms[name]
    except ImportError as error:
        raise source.error(f"{key}.name", f"{name}: {reason(error)}") from error
    known = inspect.signature(mechanism).parameters
    parameters = {
        parameter.name: parameter
        for parameter in known.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in MODEL_FACTS
    }
    options = {}
    for option, value in section.items():
        if option == "name":
            continue
        if option not in parameters:
            keys = ", ".join(parameters) or "none"
            raise source.error(
                f"{key}.{option}", f"unknown key for {name}; {nearest(option, parameters)}its keys: {keys}"
            )
        options[option] = value_of(parameters[option].annotation, value, f"{key}.{option}", source, {})
    for option, parameter in parameters.items():
        options.setdefault(option, parameter.default)
    facts = {fact: value for fact, value in MODEL_FACTS.items() if fact in known}
    try:
        mechanism(**options, **facts)
    except ValueError as error:
        raise source.error(
            f"{key}.{str(error).partition(':')[0]}", str(error).partition(": ")[2] or str(error)
        ) from error
    return {"name": name, **options}


def _run_name(changes: Mapping[str, Any]) -> str:
    """Short and usable as a folder: the last part of each key with its value, mappings written out."""
    parts = []
    for key, value in changes.items():
        pairs = value.items() if isinstance(value, Mapping) else [(key.rpartition(".")[2], value)]
        parts += [str(v) if k == "name" else f"{k}={v}" for k, v in pairs]
    return "-".join(parts).replace("/", "_").replace(" ", "")


def _deep_copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _deep_copy(item) for key, item in value.items()}
    return [_deep_copy(item) for item in value] if isinstance(value, (list, tuple)) else value
