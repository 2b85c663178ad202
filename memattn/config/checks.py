"""Checks rules between the keys of a config."""

from collections.abc import Mapping
from typing import Any

from memattn import model_rules
from memattn.config.schema import Origin
from memattn.config.sections import (
    Config,
    DataConfig,
    DecodingConfig,
    NeuralGPUConfig,
    Seq2SeqConfig,
    SweepConfig,
    TaskConfig,
)
from memattn.errors import abbreviated

_ARITHMETIC = ("addition", "multiplication")


def check(config: Config, origin: Origin) -> None:
    """Raises ConfigError if values that are valid alone do not fit each other."""
    model, decoding, training = config.model, config.decoding, config.training
    _check_sweep(config.sweep or SweepConfig(), origin)
    _check_data(config.data, origin)
    if config.data.source == "features":
        _check_features(config, origin)
    if training.teacher and training.init_from:
        raise origin.error("training.teacher", "given beside training.init_from; give one of them")
    _check_decoding(decoding, origin)
    if isinstance(model, Seq2SeqConfig):
        _check_seq2seq(model, config.data, origin)
        _check_attention(model, origin)
        if decoding.memory_ratio:
            raise origin.error("decoding.memory_ratio", f"is for active memory, not for model.kind: {model.kind}")
    else:
        _check_active_memory(model, config, origin)


def _check_features(config: Config, origin: Origin) -> None:
    """Raises ConfigError for keys that do not fit sources of vectors."""
    model = config.model
    if config.data.generated:
        raise origin.error("data.source", f"features are for a prepared corpus; {config.data.generated.key} has tokens")
    if not isinstance(model, Seq2SeqConfig):
        raise origin.error("data.source", f"features need model.kind: seq2seq, not {model.kind}")
    if config.decoding.lexicon:
        raise origin.error("decoding.lexicon", "needs data.source: tokens; it has translations of source tokens")


def _check_active_memory(model: NeuralGPUConfig, config: Config, origin: Origin) -> None:
    decoding = config.decoding
    if config.training.teacher:
        raise origin.error("training.teacher", f"needs model.kind: seq2seq, not {model.kind}")
    if decoding.sample and not decoding.memory_ratio:
        raise origin.error("decoding.memory_ratio", "decoding.sample needs one with active memory; give 1 or more")
    if decoding.coverage_penalty:
        raise origin.error("decoding.coverage_penalty", f"needs attention; model.kind: {model.kind} has none")


def _check_sweep(sweep: SweepConfig, origin: Origin) -> None:
    for name in ("grids", "cells"):
        for i, changes in enumerate(getattr(sweep, name)):
            key = f"sweep.{name}[{i}]"
            if not isinstance(changes, dict) or not changes:
                raise origin.error(key, f"expected a mapping of dotted keys to values, not {abbreviated(changes)}")
            for changed_key in changes:
                if changed_key in sweep.grid:
                    raise origin.error(f"{key}.{changed_key}", "in sweep.grid too; give it in one of them")
    _check_grid(sweep.grid, "sweep.grid", origin)
    for i, grid in enumerate(sweep.grids):
        _check_grid(grid, f"sweep.grids[{i}]", origin)


def _check_grid(grid: Mapping[str, Any], key: str, origin: Origin) -> None:
    for changed_key, values in grid.items():
        if not isinstance(values, list) or not values:
            problem = f"expected a list of one value or more, not {abbreviated(values)}"
            raise origin.error(f"{key}.{changed_key}", problem)


def _check_data(data: DataConfig, origin: Origin) -> None:
    if not data.folder and data.generated is None:
        raise origin.error("data", "names no corpus; give data.folder (a prepared corpus), data.copy or data.task")
    if data.copy and data.task:
        raise origin.error("data.task", "given beside data.copy, which is the task copy; one of them has to be null")
    if data.task:
        _check_task(data.task, origin)


def _check_task(task: TaskConfig, origin: Origin) -> None:
    is_arithmetic = task.name in _ARITHMETIC
    if is_arithmetic and task.num_symbols < 2:
        raise origin.error("data.task.num_symbols", f"is the base of {task.name}; at least 2, not 1")
    if task.uneven and not is_arithmetic:
        raise origin.error("data.task.uneven", f"is for {' and '.join(_ARITHMETIC)}, not {task.name}")
    if task.marked != TaskConfig.marked and task.name != "selective_copy":
        raise origin.error("data.task.marked", f"is for selective_copy, not {task.name}")


def _check_decoding(decoding: DecodingConfig, origin: Origin) -> None:
    if decoding.sample and decoding.coverage_penalty:
        raise origin.error("decoding.coverage_penalty", "is for beam search; decoding.sample has no use for it")
    if decoding.n_best > decoding.beam_size and not decoding.sample:
        problem = f"{decoding.n_best} is more than decoding.beam_size = {decoding.beam_size}"
        raise origin.error("decoding.n_best", problem)


def _check_seq2seq(model: Seq2SeqConfig, data: DataConfig, origin: Origin) -> None:
    if misfit := model_rules.first_problem(vars(model), reads_tokens=data.source == "tokens"):
        option, problem = misfit
        raise origin.error(f"model.{option}", problem)


def _check_attention(model: Seq2SeqConfig, origin: Origin) -> None:
    """Checks a mechanism with all of its options against the model's other keys."""
    from memattn.attention import mechanism as mechanism_of  # imports TensorFlow

    attention = model.attention
    mechanism = mechanism_of(attention["name"])
    width = 2 * model.units_of_encoder
    if mechanism.equal_widths and width != model.units:
        problem = f"{attention['name']} needs states as wide as model.units = {model.units}, not {width}"
        raise origin.error("model.attention", f"{problem}; set model.encoder_units to half of it, or use luong")
