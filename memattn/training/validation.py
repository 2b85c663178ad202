"""Scores a model on the validation split during training."""

import dataclasses

from memattn.config import Config, DecodingConfig
from memattn.data import corpus
from memattn.data.text import Text, Tokens
from memattn.data.vocabulary import Vocabulary
from memattn.evaluation import metrics
from memattn.evaluation.metrics import Scores
from memattn.model.seq2seq import Seq2Seq
from memattn.search.searcher import Searcher, decode


class Validation:
    """Decodes the validation split with `training.validation_beam_size`. Raises DataError."""

    def __init__(self, config: Config, model: Seq2Seq, vocabulary: Vocabulary, text: Text | Tokens):
        path = config.data.path
        self._source = corpus.read_corpus(path, "valid", vocabulary).source
        self._references = [text.decode(line.split()) for line in corpus.read_references(path, "valid")[0]]
        self._searcher = Searcher(model, _decoding(config))
        self._vocabulary, self._text, self._num_buckets = vocabulary, text, config.data.num_buckets

    def scores(self) -> Scores:
        """Scores of the current weights."""
        self._searcher.renew()
        found, _ = decode(self._searcher, self._source, self._vocabulary, self._num_buckets)
        return metrics.score([self._text.decode(translation.best) for translation in found], self._references)


def _decoding(config: Config) -> DecodingConfig:
    """As many hypotheses per batch as in decoding: with a smaller beam, more sources."""
    beam_size = config.training.validation_beam_size
    batch_size = max(1, config.decoding.batch_size * config.decoding.beam_size // beam_size)
    decoding = dataclasses.replace(config.decoding, beam_size=beam_size, batch_size=batch_size, n_best=1, sample=None)
    active = config.model.kind != "seq2seq"
    return dataclasses.replace(decoding, memory_ratio=decoding.memory_ratio or 1.0) if active else decoding
