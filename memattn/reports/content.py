"""Reads what a report says about runs: configs, curves, evaluations, and example translations with their attention."""

import dataclasses
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from memattn.config import Config
from memattn.data import corpus
from memattn.data.sentences import Sentences
from memattn.data.vocabulary import EOS, SPECIAL_TOKENS, split_words
from memattn.errors import ConfigError, DataError, RunError
from memattn.evaluation import plots
from memattn.evaluation.evaluate import TestSet, read_split
from memattn.evaluation.metrics import METRICS
from memattn.files import read_lines
from memattn.runs.result import Result
from memattn.runs.run import Run
from memattn.runs.trained import Trained, load
from memattn.search.searcher import Searcher, decode
from memattn.serving.translator import WITHOUT_XLA

_LONGEST = 100  # tokens of a source; a longer one is hard to look through


@dataclasses.dataclass(frozen=True)
class ReportedRun:
    """A run as a report shows it, and its evaluation on a test set, if there is one."""

    folder: str
    config: Config  # with overrides
    overrides: list[str]
    curves: Mapping[str, Mapping[int, float]]  # scores by training step, by the names of metrics
    sources: list[list[str]]  # tokens of each source of the test set
    # sources, then targets, as words without BPE: the same for all runs on one test set, whatever their BPE
    text: list[str]
    by_characters: bool  # whether BLEU on tokens compares characters
    result: Result | None = None
    hypotheses: list[str] = dataclasses.field(default_factory=list)  # words divided by spaces, as are the references
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
    text = run.tokenizer.decode([*sources, *targets])
    result = run.result(split)
    hypotheses, references = run.translations(split) if result else ([], [])
    if result:
        evaluated = {f"{folder}: hypotheses": len(hypotheses), f"{folder}: references": len(references)}
        corpus.check_line_counts({f"{data}: {split}": len(sources), **evaluated})
        if references != text[len(sources) :]:
            problem = f"its evaluation on {split} has other references than {data}"
            raise DataError(f"{folder}: {problem}; name their folder by --set data.folder=..., or repeat memattn-eval")
    return ReportedRun(
        folder=folder,
        config=config,
        overrides=overrides,
        curves=curves,
        sources=sources,
        text=text,
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


def evaluation_command(run: ReportedRun, split: str) -> str:
    """Returns the command that evaluates a run on a split, with the overrides of the report."""
    overrides = [argument for override in run.overrides for argument in ("--set", override)]
    return shlex.join(["memattn-eval", "--run_dir", run.folder, "--split", split, *overrides])


class Attention(NamedTuple):
    """Attention weights of a translation."""

    source: list[str]  # S tokens, with the end of sentence
    target: list[str]  # T tokens, with the end of sentence
    weights: np.ndarray  # [T, S], weights of the source tokens at each target token
    slots: list[int]  # numbers, from 1, of the K slots with at least 1% of the weight, by their mean source positions
    reads: np.ndarray  # [T, K], what each target token reads of these slots, as parts of its weights
    alpha: np.ndarray  # [K, S], what these slots hold of the source tokens; sums to 1 over the source


class Translated(NamedTuple):
    """A run's translation of an example; its attention is None if the model weighs no source positions."""

    run: ReportedRun
    text: str
    attention: Attention | None


class Example(NamedTuple):
    """A sentence of the test set, with its number there, from 1, and its translations."""

    number: int
    source: str
    reference: str
    translations: list[Translated]


def by_test_set(runs: Sequence[ReportedRun]) -> list[list[ReportedRun]]:
    """Returns the runs in groups that share a test set."""
    groups: dict[tuple[str, ...], list[ReportedRun]] = {}
    for run in runs:
        groups.setdefault(tuple(run.text), []).append(run)
    return list(groups.values())


def examples(runs: Sequence[ReportedRun], split: str, number: int, overrides: list[str]) -> list[Example]:
    """Returns translations of `number` sentences of the test set that the runs share, by their best weights.

    The sentences are spread over the lengths of the sources. Raises ConfigError, DataError, RunError, OSError.
    """
    indices = spread(list(map(len, runs[0].sources)), number)
    results: list[Example] = []
    for run in runs:
        trained = load([run.folder], [WITHOUT_XLA, *overrides])
        test_set = read_split(trained, split)
        sources = trained.tokenizer.decode(run.sources[i] for i in indices)
        results = results or [
            Example(i + 1, source, test_set.detokenized_references[i], [])
            for i, source in zip(indices, sources, strict=True)
        ]
        for example, translated in zip(results, _translations(run, trained, test_set, indices), strict=True):
            example.translations.append(translated)
    return results


def spread(lengths: list[int], number: int) -> list[int]:
    """Returns the indices of `number` sentences of up to _LONGEST tokens, equally spaced in the order of lengths.

    Empty sentences are left out. If all are longer than _LONGEST, returns the index of the shortest.
    """
    by_length = sorted((index for index, length in enumerate(lengths) if length), key=lengths.__getitem__)
    short = [index for index in by_length if lengths[index] <= _LONGEST] or by_length[:1]
    chosen = np.linspace(0, len(short) - 1, min(number, len(short))).round().astype(int)
    return [short[index] for index in chosen]


def _translations(run: ReportedRun, trained: Trained, test_set: TestSet, indices: list[int]) -> list[Translated]:
    """Returns a run's translations of some sentences of its test set."""
    sources = Sentences.from_ids([list(test_set.source[index]) for index in indices])
    searcher = Searcher(trained.model, trained.config.decoding, trained.lexicon)
    translations, _ = decode(searcher, sources, trained.vocabulary, num_buckets=1)
    results, (model,) = [], trained.models
    best = [translation.best for translation in translations]
    texts = trained.tokenizer.detokenize(trained.tokenizer.decode(best))
    for index, tokens, text in zip(indices, best, texts, strict=True):
        attention = None
        if model.has_alignments:
            alignment = plots.align(model, trained.vocabulary, test_set.source, index, tokens)
            attention = _attention(run.sources[index], alignment)
        results.append(Translated(run, text, attention))
    return results


def _attention(source: list[str], alignment: plots.Alignment) -> Attention:
    """Returns the attention of a translation of source tokens, without slots that hardly matter."""
    slots = plots.largest_slots(alignment.slots)
    parts = alignment.slots[slots]  # [K, T, S]
    held = parts.sum(1)
    alpha = held / held.sum(1, keepdims=True)
    numbers = [int(slot) + 1 for slot in slots]
    source = [*source, SPECIAL_TOKENS[EOS]]
    return Attention(source, alignment.target, alignment.weights, numbers, parts.sum(2).T, alpha)
