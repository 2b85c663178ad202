"""Scores a model on the validation split during training."""

import dataclasses
from collections.abc import Callable

import numpy as np

from memattn.config import Config, DecodingConfig
from memattn.data import corpus
from memattn.data.corpus import Corpus
from memattn.data.tokenizer import Text, Tokens, bleu_problem
from memattn.data.vocabulary import Vocabulary, split_words
from memattn.evaluation import metrics
from memattn.evaluation.metrics import Scores
from memattn.models.interface import Model
from memattn.search.beam_search import Hypotheses
from memattn.search.searcher import Searcher, decode


class Validation:
    """Decodes the validation split with `training.validation_beam_size`. Raises DataError, ConfigError.

    Attributes:
      problem: a line that says why BLEU will tell nothing, None if it will.
    """

    def __init__(self, config: Config, model: Model, vocabulary: Vocabulary, text: Text | Tokens):
        path = config.data.path
        pairs = corpus.read_corpus(path, "valid", vocabulary)
        self._source = pairs.source
        self._references = [text.decode(split_words(line)) for line in corpus.read_references(path, "valid")[0]]
        self.problem = bleu_problem(text, self._references)
        self._searcher = Searcher(model, _decoding(config, pairs))
        self._searcher.check(self._searcher.config.batch_size, int(pairs.source.lengths().max()))
        self._vocabulary, self._text, self._num_buckets = vocabulary, text, config.data.num_buckets

    def scores(self, stop: Callable[[], bool] = lambda: False) -> Scores | None:
        """Scores of the current weights; None if `stop()` became true, which is asked before each batch."""
        self._searcher.renew()
        searcher = _Stoppable(self._searcher, stop)
        try:
            translations, _ = decode(searcher, self._source, self._vocabulary, self._num_buckets)
        except _StoppedError:
            return None
        hypotheses = [self._text.decode(translation.best) for translation in translations]
        return metrics.score(hypotheses, self._references, self._text.by_characters)


class _StoppedError(Exception):
    """The end of a validation that is not wanted now."""


class _Stoppable:
    """A searcher that searches only until `stop()` is true, then raises _StoppedError."""

    def __init__(self, searcher: Searcher, stop: Callable[[], bool]):
        self._searcher, self._stop = searcher, stop
        self.config, self.check = searcher.config, searcher.check

    def __call__(self, source: np.ndarray, numbers: np.ndarray) -> Hypotheses:
        if self._stop():
            raise _StoppedError
        return self._searcher(source, numbers)


def _decoding(config: Config, pairs: Corpus) -> DecodingConfig:
    """As many hypotheses per batch as in decoding: with a smaller beam, more sources.

    Active memory has one length: that of `memory_ratio`, or without one that in which 19 of 20 targets have room.
    """
    beam_size = config.training.validation_beam_size
    batch_size = max(1, config.decoding.batch_size * config.decoding.beam_size // beam_size)
    decoding = dataclasses.replace(config.decoding, beam_size=beam_size, batch_size=batch_size, n_best=1, sample=None)
    if config.model.kind == "seq2seq" or decoding.memory_ratio:
        return decoding
    needed = np.quantile(pairs.target.lengths() / pairs.source.lengths(), 0.95)
    return dataclasses.replace(decoding, memory_ratio=round(float(np.clip(needed, 1, 2)), 2))
