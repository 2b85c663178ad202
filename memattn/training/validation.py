"""Scores a model on the validation split during training."""

import dataclasses
from collections.abc import Callable

import numpy as np

from memattn.config import Config, DecodingConfig
from memattn.data import corpus
from memattn.data.sentences import Corpus
from memattn.data.tokenizer import Tokenizer, bleu_problem, one_line
from memattn.data.vocabulary import Vocabulary, split_words
from memattn.evaluation import metrics
from memattn.evaluation.metrics import Comparison
from memattn.evaluation.target_loss import StoppedError, target_loss
from memattn.models.interface import Model
from memattn.search.beam_search import Hypotheses
from memattn.search.searcher import Scorer, Searcher, decode


class Validation:
    """Scores the weights of a model by `training.metric`, and by the metrics that every validation has.

    It decodes the validation split with `training.validation_beam_size`. Raises DataError, ConfigError.

    Attributes:
      metrics: names of the metrics, in the order of their scores.
      problem: a line that says why BLEU will tell nothing, None if it will, or if another metric decides.
    """

    def __init__(self, config: Config, model: Model, vocabulary: Vocabulary, text: Tokenizer):
        path = config.data.path
        self._pairs = corpus.read_corpus(path, "valid", vocabulary)
        tokens, written = corpus.read_references(path, "valid")
        self._references = [text.decode(split_words(line)) for line in tokens]
        self._written = list(map(one_line, written))
        self.metrics = metrics.of_validation(config.training.metric)
        self.problem = bleu_problem(text, self._references) if config.training.metric == "bleu" else None
        self._searcher, self._scorer = Searcher(model, _decoding(config, self._pairs)), Scorer(model)
        self._searcher.check(self._searcher.config.batch_size, int(self._pairs.source.lengths().max()))
        self._vocabulary, self._text, self._num_buckets = vocabulary, text, config.data.num_buckets

    def scores(self, stop: Callable[[], bool] = lambda: False) -> dict[str, float] | None:
        """Scores of the current weights; None if `stop()` became true, which is asked before each batch."""
        self._searcher.renew()
        try:
            translations, _ = decode(
                _Stoppable(self._searcher, stop), self._pairs.source, self._vocabulary, self._num_buckets
            )
            comparison = Comparison(
                hypotheses=[self._text.decode(translation.best) for translation in translations],
                references=self._references,
                by_characters=self._text.by_characters,
                language=self._text.target_language,
                detokenize=lambda hypothesis: one_line(self._text.detokenize(hypothesis)),
                written_references=self._written,
                target_loss=lambda: target_loss(self._scorer, self._pairs.source, self._pairs.target, stop),
            )
            return {name: score.value for name, score in metrics.scores(comparison, self.metrics).items()}
        except StoppedError:
            return None


class _Stoppable:
    """A searcher that searches only until `stop()` is true, then raises StoppedError."""

    def __init__(self, searcher: Searcher, stop: Callable[[], bool]):
        self._searcher, self._stop = searcher, stop
        self.config, self.check = searcher.config, searcher.check

    def __call__(self, source: np.ndarray, numbers: np.ndarray) -> Hypotheses:
        if self._stop():
            raise StoppedError
        return self._searcher(source, numbers)


def _decoding(config: Config, pairs: Corpus) -> DecodingConfig:
    """As many hypotheses per batch as in decoding: with a smaller beam, more sources.

    Active memory has one length: that of `memory_ratio`, or without one that in which 19 of 20 targets have room.
    """
    beam_size = config.training.validation_beam_size
    batch_size = max(1, config.decoding.batch_size * config.decoding.beam_size // beam_size)
    decoding = dataclasses.replace(config.decoding, beam_size=beam_size, batch_size=batch_size, n_best=1, sample=None)
    if not config.model.has_memory_length or decoding.memory_ratio:
        return decoding
    needed = np.quantile(pairs.target.lengths() / pairs.source.lengths(), 0.95)
    return dataclasses.replace(decoding, memory_ratio=round(float(np.clip(needed, 1, 2)), 2))
