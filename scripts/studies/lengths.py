"""Computes BLEU by the length of the source, and makes test sets of a single length."""

import dataclasses
import statistics
from typing import cast

import numpy as np

from memattn.config import TaskConfig
from memattn.data import corpus
from memattn.data.sentences import Sentences
from memattn.data.tasks import TASKS
from memattn.evaluation import metrics
from memattn.evaluation.evaluate import TestSet
from memattn.evaluation.metrics import Comparison
from memattn.reports.page import length_ranges
from memattn.runs.run import Run
from memattn.runs.trained import Trained
from memattn.sweeps.runs import SweepRun


def bleu_by_length(runs: list[SweepRun]) -> dict[tuple[str, int], float]:
    """Returns (source lengths, number of sentences) -> mean BLEU of runs, for each quarter of their test set."""
    data = runs[0].config.data
    vocabulary = corpus.read_vocabulary(data.path)
    sources = corpus.read_corpus(data.path, runs[0].result.split, vocabulary).source
    lengths = sources.lengths() - 1  # without the end of sentence
    outputs = [Run(run.folder).translations(run.result.split) for run in runs]
    quarters = {}
    for start, end in length_ranges(lengths, 4):
        indices = np.flatnonzero((start <= lengths) & (lengths <= end))
        bleu = [
            metrics.bleu(Comparison([hypotheses[i] for i in indices], [references[i] for i in indices])).value
            for hypotheses, references in outputs
        ]
        quarters[f"{start}-{end}", len(indices)] = statistics.mean(bleu)
    return quarters


def task_of_length(trained: Trained, length: int, number: int) -> TestSet:
    """Makes `number` new pairs of a run's `data.task`, each of the length `length` (see `Task.pairs`)."""
    task = dataclasses.replace(cast(TaskConfig, trained.config.data.task), max_length=length, uneven=False)
    random = np.random.RandomState(length)  # noqa: NPY002
    pairs = TASKS[task.name].pairs(task, random, np.full(number, length))
    references = [" ".join(target) for _, target in pairs]
    source, target = (
        Sentences.from_ids([trained.vocabulary.encode(tokens) for tokens in part]) for part in zip(*pairs, strict=True)
    )
    return TestSet(f"L = {length}", source, target, references, references)
