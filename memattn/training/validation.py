"""Scores a model on the validation split during training."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from memattn.config import Config, DecodingConfig
from memattn.data import corpus
from memattn.data.sentences import Corpus
from memattn.data.tokenizer import Tokenizer, bleu_problem, one_line
from memattn.data.trees import are_trees
from memattn.data.vocabulary import PAD, Vocabulary, split_words
from memattn.errors import ConfigError
from memattn.evaluation import metrics
from memattn.evaluation.metrics import Comparison
from memattn.evaluation.target_loss import StoppedError, target_loss
from memattn.models.interface import Model
from memattn.search.beam_search import Hypotheses
from memattn.search.scorer import Scorer
from memattn.search.searcher import Searcher, decode
from memattn.training import distribution

_COVERED_TARGETS = 0.95  # share of the validation targets that active memory must have room for


class Example(NamedTuple):
    """A sentence, its reference and its translation: words divided by spaces, BPE undone."""

    source: str
    reference: str
    translation: str


class Validation:
    """Scores the weights of a model by `training.metric`, and by the metrics that every validation has.

    It decodes the validation split with `training.validation_beam_size`. Raises DataError, ConfigError.

    Attributes:
      metrics: names of the metrics, in the order of their scores.
      problem: a warning that BLEU may stay 0; None without such a problem, or if another metric decides.
      example: a sentence of median length with its last translation, which is "" on workers that do not translate.
    """

    def __init__(self, config: Config, model: Model, vocabulary: Vocabulary, text: Tokenizer):
        path = config.data.path
        self._pairs = corpus.read_corpus(path, "valid", vocabulary, config.data.source)
        tokenized, detokenized = corpus.read_references(path, "valid")
        self._references = [text.decode(split_words(line)) for line in tokenized]
        self._detokenized_references = list(map(one_line, detokenized))
        self.metrics = metrics.validation_metrics(config.training.metric)
        metrics.check_installed(self.metrics)
        if metrics.METRICS[config.training.metric].needs_trees and not are_trees(self._references):
            problem = f"{config.training.metric} compares trees, and {path} has other targets"
            raise ConfigError(f"training.metric: {problem}; see memattn-prepare parsing")
        self.problem = bleu_problem(text, self._references) if config.training.metric == "bleu" else None
        self._searcher, self._scorer = _StoppableSearcher(model, _decoding(config, self._pairs)), Scorer(model)
        self._searcher.check(self._searcher.config.batch_size, int(self._pairs.source.lengths().max()))
        self._vocabulary, self._text, self._num_buckets = vocabulary, text, config.data.num_buckets
        self._example_index = int(np.argsort(self._pairs.source.lengths(), kind="stable")[len(self._pairs) // 2])
        source = self._pairs.source.text(self._example_index, vocabulary, text)
        self.example = Example(one_line(source), one_line(self._references[self._example_index]), "")
        self._example_tokens: list[str] = []  # of the translation

    def chiefs_scores(self, strategy: tf.distribute.Strategy, stop: Callable[[], bool]) -> dict[str, float] | None:
        """Returns the scores that the chief computes, on every worker; None if `stop()` became true on the chief."""

        def numbers() -> list[float]:
            scores = self.scores(stop)
            return [0.0] * (1 + len(self.metrics)) if scores is None else [1.0, *scores.values()]

        is_complete, *values = distribution.numbers_of_chief(strategy, numbers, 1 + len(self.metrics))
        return dict(zip(self.metrics, values, strict=True)) if is_complete else None

    def scores(self, stop: Callable[[], bool] = lambda: False) -> dict[str, float] | None:
        """Returns the scores of the current weights; None if `stop()`, asked before each batch, became true."""
        self._searcher.stop = stop
        self._searcher.renew()
        try:
            translations, _ = decode(self._searcher, self._pairs.source, self._vocabulary, self._num_buckets)
            comparison = Comparison.for_tokenizer(
                self._text,
                hypotheses=[self._text.decode(translation.best) for translation in translations],
                references=self._references,
                detokenized_references=self._detokenized_references,
                target_loss=lambda: target_loss(self._scorer, self._pairs.source, self._pairs.target, stop),
            )
            scores = {name: score.value for name, score in metrics.scores(comparison, self.metrics).items()}
        except StoppedError:
            return None
        self._example_tokens = translations[self._example_index].best
        self.example = self.example._replace(translation=one_line(self._text.decode(self._example_tokens)))
        return scores

    def draw_example(self) -> bytes | None:
        """Returns a picture of the alignment of the example's translation, as PNG; None if there is no alignment."""
        if not (self._example_tokens and self._searcher.has_alignments):
            return None
        from memattn.evaluation import plots  # loads much of Matplotlib

        index, target = self._example_index, self._vocabulary.encode(self._example_tokens)
        labels = self._pairs.source.labels(index, self._vocabulary)
        source = self._pairs.source.padded(np.array([index]), 1, len(labels))
        usual = 2 * len(self._pairs.target[index])  # mostly one width: traced once
        padded = np.full([1, max(len(target), usual)], PAD, np.int32)
        padded[0, : len(target)] = target
        weights = self._searcher.align(source, padded)[0, : len(target)].astype(np.float32)
        tokens = [self._vocabulary.tokens[i] for i in target]
        figure = plots.alignment_figure(labels, tokens, weights, slots=weights[None][:0])
        return plots.rendered(figure, "png")


class _StoppableSearcher(Searcher):
    """A searcher that raises StoppedError in place of searching once `stop()` is true."""

    def __init__(self, model: Model, config: DecodingConfig):
        super().__init__(model, config)
        self.stop: Callable[[], bool] = lambda: False

    def __call__(self, source: np.ndarray, numbers: Sequence[int] | np.ndarray | None = None) -> Hypotheses:
        if self.stop():
            raise StoppedError
        return super().__call__(source, numbers)


def _decoding(config: Config, pairs: Corpus) -> DecodingConfig:
    """Returns the settings of a validation's search, with as many hypotheses in a batch as `decoding` has.

    Active memory gets a single memory length: by `memory_ratio`, or one that has room for nearly all targets.
    """
    beam_size = config.training.validation_beam_size
    batch_size = max(1, config.decoding.batch_size * config.decoding.beam_size // beam_size)
    decoding = dataclasses.replace(config.decoding, beam_size=beam_size, batch_size=batch_size, n_best=1, sample=None)
    if not config.model.has_memory_length or decoding.memory_ratio:
        return decoding
    needed = np.quantile(pairs.target.lengths() / pairs.source.lengths(), _COVERED_TARGETS)
    return dataclasses.replace(decoding, memory_ratio=round(float(np.clip(needed, 1, 2)), 2))
