"""Scores a model on the validation split during training."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from memattn.config import Config, DecodingConfig
from memattn.data.tokenizer import Tokenizer, bleu_problem
from memattn.data.trees import are_trees
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError
from memattn.evaluation import evaluate, metrics
from memattn.evaluation.evaluate import TestSet
from memattn.models.interface import Model
from memattn.search.searcher import Searcher, StoppedError, decode
from memattn.serving.scorer import Scorer

_COVERED_TARGETS = 0.95  # fraction of the validation targets that active memory must have room for


class ValidationExample(NamedTuple):
    """A sentence, its reference and its translation: words divided by spaces, BPE undone."""

    source: str
    reference: str
    translation: str


class Validation:
    """Scores the weights of a model by `training.metric`, and by the metrics that every validation has.

    It decodes the validation split with `training.validation_beam_size`. Raises DataError, ConfigError.

    Attributes:
      warning: why BLEU may stay 0; None if it will not, or if another metric decides.
      example: a sentence of median length with its last translation, which is "" on workers that do not translate.
    """

    def __init__(self, config: Config, model: Model, vocabulary: Vocabulary, tokenizer: Tokenizer):
        path, metric = config.data.path, config.training.metric
        self._valid = evaluate.read_test_set(path, "valid", vocabulary, tokenizer, config.data.source)
        self._metrics, kind = metrics.validation_metrics(metric), metrics.METRICS[metric].kind
        metrics.check_installed({kind})
        if kind == "trees" and not are_trees(self._valid.references):
            problem = f"{metric} compares trees, and {path} has other targets"
            raise ConfigError(f"training.metric: {problem}; see memattn-prepare parsing")
        self.warning = bleu_problem(tokenizer, self._valid.references) if metric == "bleu" else None
        self._searcher, self._scorer = Searcher(model, _decoding(config, self._valid)), Scorer(model)
        self._model, self._vocabulary, self._tokenizer = model, vocabulary, tokenizer
        self._num_buckets = config.data.num_buckets
        by_length = np.argsort(self._valid.source.lengths(), kind="stable")
        self._example_index = int(by_length[len(by_length) // 2])
        source = self._valid.source.text(self._example_index, vocabulary, tokenizer)
        self.example = ValidationExample(source, self._valid.references[self._example_index], "")
        self._example_tokens: list[str] = []  # of the translation

    def scores(self, stop: Callable[[], bool] = lambda: False) -> dict[str, float] | None:
        """Returns the scores of the current weights; None if `stop()`, asked before each batch, became true."""
        self._searcher.renew()
        try:
            translations, _ = decode(self._searcher, self._valid.source, self._vocabulary, self._num_buckets, stop)
            comparison = self._valid.comparison(
                translations,
                self._tokenizer,
                lambda: self._scorer.target_loss(self._valid.source, self._valid.target, stop),
            )
            scores = {name: score.value for name, score in metrics.scores(comparison, self._metrics).items()}
        except StoppedError:
            return None
        self._example_tokens = translations[self._example_index].best
        self.example = self.example._replace(translation=comparison.hypotheses[self._example_index])
        return scores

    def draw_example(self) -> bytes | None:
        """Returns a picture of the alignment of the example's translation, as PNG; None if there is no alignment."""
        if not (self._example_tokens and self._model.has_alignments):
            return None
        from memattn.evaluation import plots  # loads much of Matplotlib

        alignment = plots.align(
            self._model, self._vocabulary, self._valid.source, self._example_index, self._example_tokens
        )
        return plots.rendered(plots.alignment_figure(alignment), "png")


def _decoding(config: Config, valid: TestSet) -> DecodingConfig:
    """Returns the settings of a validation's search, with as many hypotheses in a batch as `decoding` has.

    Active memory gets a single memory length: by `memory_ratio`, or one that has room for nearly all targets.
    """
    beam_size = config.training.validation_beam_size
    batch_size = max(1, config.decoding.batch_size * config.decoding.beam_size // beam_size)
    decoding = dataclasses.replace(config.decoding, beam_size=beam_size, batch_size=batch_size, n_best=1, sample=None)
    if not config.model.has_memory_length or decoding.memory_ratio:
        return decoding
    needed = np.quantile(valid.target.lengths() / valid.source.lengths(), _COVERED_TARGETS)
    return dataclasses.replace(decoding, memory_ratio=round(float(np.clip(needed, 1, 2)), 2))
