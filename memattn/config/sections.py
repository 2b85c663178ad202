"""The whole config of a run: the options of each part, with the rules between parts, and a sweep of runs.

The defaults are the settings of the paper's copy task (Britz, Guan & Luong, 2017, section 4.1). The comment beside or
above an option is its description in docs/reference/configuration.md.
"""

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

from memattn.data.config import DataConfig
from memattn.errors import abbreviated
from memattn.models.neural_gpu import NeuralGPUConfig
from memattn.models.seq2seq import Seq2SeqConfig
from memattn.options import Options, Problems
from memattn.search.config import DecodingConfig
from memattn.training.config import TrainingConfig

ModelConfig: TypeAlias = Seq2SeqConfig | NeuralGPUConfig


@dataclasses.dataclass(frozen=True)
class SweepConfig(Options):
    """Runs of a sweep: each cell and each point of `grids`, combined with every point of `grid`."""

    grid: Mapping[str, list] = dataclasses.field(default_factory=dict)  # dotted keys with lists of values
    grids: list = dataclasses.field(default_factory=list)  # a list of grids; the runs are the union of their points
    cells: list = dataclasses.field(default_factory=list)  # a list of mappings of dotted keys to values, one per run

    def problems(self) -> Problems:
        for name in ("grids", "cells"):
            for i, changes in enumerate(getattr(self, name)):
                key = f"{name}[{i}]"
                if not isinstance(changes, dict) or not changes:
                    yield key, f"expected a mapping of dotted keys to values, not {abbreviated(changes)}"
                for changed_key in changes:
                    if changed_key in self.grid:
                        yield f"{key}.{changed_key}", "in sweep.grid too; give it in one of them"
        for name, grid in (("grid", self.grid), *((f"grids[{i}]", grid) for i, grid in enumerate(self.grids))):
            for key, values in grid.items():
                if not isinstance(values, list) or not values:
                    yield f"{name}.{key}", f"expected a list of one value or more, not {abbreviated(values)}"


@dataclasses.dataclass(frozen=True)
class Config(Options):
    """The settings of a run, and the sweep of runs that change them."""

    data: DataConfig
    model: ModelConfig = dataclasses.field(default_factory=Seq2SeqConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    decoding: DecodingConfig = dataclasses.field(default_factory=DecodingConfig)
    sweep: SweepConfig | None = None

    def __post_init__(self):
        # XLA's convolutions are slow on CPUs. The runs of a sweep may have other models, and decide for themselves.
        if isinstance(self.model, NeuralGPUConfig) and self.sweep is None:
            for name in ("training", "decoding"):
                if getattr(self, name).jit_compile == "auto":
                    object.__setattr__(self, name, dataclasses.replace(getattr(self, name), jit_compile=False))
        super().__post_init__()

    def problems(self) -> Problems:
        model, decoding, reads_tokens = self.model, self.decoding, self.data.source == "tokens"
        if isinstance(model, Seq2SeqConfig):
            for option, problem in model.problems_of_sources(reads_tokens=reads_tokens):
                yield f"model.{option}", problem
            if decoding.lexicon and not reads_tokens:
                yield "decoding.lexicon", "needs data.source: tokens; it has translations of source tokens"
            if decoding.memory_ratio:
                yield "decoding.memory_ratio", f"is for active memory, not for model.kind: {model.kind}"
            return
        if not reads_tokens:
            yield "data.source", f"{self.data.source} need model.kind: seq2seq, not {model.kind}"
        if self.training.teacher:
            yield "training.teacher", f"needs model.kind: seq2seq, not {model.kind}"
        if decoding.sample and not decoding.memory_ratio:
            yield "decoding.memory_ratio", "decoding.sample needs one with active memory; give 1 or more"
        if decoding.coverage_penalty:
            yield "decoding.coverage_penalty", f"needs attention; model.kind: {model.kind} has none"
