"""Reads what a report says about a run: config, learning curves, sources of the test set, and the evaluation."""

import dataclasses
import math
import os
import shlex
from collections.abc import Mapping

from memattn.config import Config
from memattn.data import corpus
from memattn.data.vocabulary import split_words
from memattn.errors import ConfigError, RunError
from memattn.evaluation.metrics import METRICS
from memattn.files import read_lines
from memattn.runs.result import Result
from memattn.runs.run import Run


@dataclasses.dataclass(frozen=True)
class ReportedRun:
    """A run as a report shows it.

    Attributes:
      folder: path of the run folder.
      config: config of the run, with overrides.
      curves: scores by training step, by the names of metrics.
      sources: tokens of each source of the test set.
      text: the sources, then the targets, as words without BPE: the same for runs on one test set, whatever their BPE.
      by_characters: whether BLEU on tokens compares characters.
      result: result on the test set; None if the run was not evaluated on it.
      hypotheses, references: those of the evaluation, in words divided by spaces.
    """

    folder: str
    config: Config
    curves: Mapping[str, Mapping[int, float]]
    sources: list[list[str]]
    text: list[str]
    by_characters: bool
    result: Result | None = None
    hypotheses: list[str] = dataclasses.field(default_factory=list)
    references: list[str] = dataclasses.field(default_factory=list)


def read(folder: str, split: str, overrides: list[str]) -> ReportedRun:
    """Reads a run and its evaluation on a split. Raises ConfigError, DataError, RunError, OSError."""
    run = Run(folder)
    config = run.config_with(overrides)
    if config.data.source != "tokens":
        raise ConfigError(f"{folder}: its sources are {config.data.source}; a report shows sources of text")
    curves = _curves(run)
    data = config.data.path
    corpus.check_split(data, split)
    sources = [split_words(line) for line in read_lines(os.path.join(data, f"{split}.source"))]
    targets, _ = corpus.read_references(data, split)
    result = run.result(split)
    hypotheses, references = run.translations(split) if result else ([], [])
    if result:
        corpus.check_parallel({f"{data}: {split}": len(sources), f"{folder}: hypotheses": len(hypotheses)})
    return ReportedRun(
        folder=folder,
        config=config,
        curves=curves,
        sources=sources,
        text=[run.tokenizer.decode(tokens) for tokens in (*sources, *targets)],
        by_characters=run.tokenizer.by_characters,
        result=result,
        hypotheses=hypotheses,
        references=references,
    )


def _curves(run: Run) -> dict[str, dict[int, float]]:
    """Returns the scores of a run's validations; those that are missing or not finite are left out."""
    rows = run.validations
    if not rows:
        every = run.config.training.validate_every
        raise RunError(f"{run.folder}: no validation yet; training validates every {every:,} steps")
    return {
        name: {int(row["step"]): float(row[name]) for row in rows if row[name] and math.isfinite(float(row[name]))}
        for name in METRICS
        if name in rows[0]
    }


def evaluation_command(run_dir: str, split: str) -> str:
    """Returns the command that evaluates a run on a split."""
    return f"memattn-eval --run_dir {shlex.quote(run_dir)} --split {shlex.quote(split)}"
