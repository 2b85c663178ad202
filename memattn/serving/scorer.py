"""Scores given targets: the log-probability of each, given its source, for a corpus and for lines of pairs."""

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from memattn.data.batches import streaming_batches
from memattn.data.sentences import Sentences, Sources
from memattn.data.vocabulary import PAD
from memattn.errors import DataError
from memattn.models.interface import Ensemble, Model
from memattn.runs.trained import Trained
from memattn.search.searcher import StoppedError
from memattn.serving.lines import STDIN, in_order, too_long, until_error

_BATCH_SIZE = 16  # sentences of a loss; the logits of all their target positions are in memory at once


class Scorer:
    """Computes log-probabilities of given targets; traced once per padded shape."""

    def __init__(self, model: Model | Ensemble):
        self._model = model
        self._score = tf.function(self._score_batch, autograph=False)

    def __call__(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Returns log-probabilities [B] of target ids [B, T], end of sentence included, given a batch of sources."""
        return self._score(tf.constant(source), tf.constant(target, tf.int32)).numpy()

    def target_loss(self, source: Sources, target: Sentences, stop: Callable[[], bool] = lambda: False) -> float:
        """Returns the negative log-probability per target token of a corpus, ends of sentences included.

        Raises StoppedError once `stop()`, asked before each batch, is true.
        """
        total = 0.0
        for members, *batch in streaming_batches(source, target, batch_size=_BATCH_SIZE):
            if stop():
                raise StoppedError
            scores = self(*batch)[: len(members)]  # without the rows of padding
            total += float(np.sum(np.where(np.isnan(scores), -np.inf, scores), dtype=np.float64))
        return -total / len(target.ids)

    def _score_batch(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        log_probs = tf.nn.log_softmax(tf.cast(self._model(source, target), tf.float32))
        tokens = tf.gather(log_probs, target, batch_dims=2)
        return tf.reduce_sum(tf.where(tf.equal(target, PAD), 0.0, tokens), 1)


class PairScorer:
    """Turns lines `source TAB target` into log-probabilities of the targets, including their end of sentence.

    A pair is scored as it is, however long it is, unless `decoding.long_lines` refuses it.

    Attributes:
      batch_size: number of pairs that are scored at a time.

    Raises ConfigError for a model whose sources are no text.
    """

    def __init__(self, trained: Trained):
        trained.check_reads_text("memattn-translate --score")
        self._trained, self._scorer = trained, Scorer(trained.model)
        self.batch_size = trained.config.decoding.batch_size

    def __call__(self, lines: list[str], first: int) -> Iterator[str]:
        """Yields the score of each line, as soon as it is ready.

        `first` is the number of the first line. Raises DataError for a line that is no pair, or is refused, after the
        scores of the lines before it.
        """
        pairs = (self._ids(line, number) for number, line in enumerate(lines, first))
        yield from until_error(pairs, lambda pairs: in_order(self._scores(pairs), len(pairs)))

    def _ids(self, line: str, number: int) -> list[list[int]]:
        """Returns the ids of source and target of a line."""
        texts, trained = line.split("\t"), self._trained
        if len(texts) != 2:
            raise DataError(f"{STDIN}:{number}: expected a source, a tab and a target")
        pair = [trained.tokenizer.encode(texts[0], "source"), trained.tokenizer.encode(texts[1], "target")]
        longer, most = max(pair, key=len), trained.max_source_length
        if len(longer) > most and trained.config.decoding.long_lines == "refuse":
            raise DataError(too_long(f"{STDIN}:{number}", longer, most))
        return [trained.vocabulary.encode(tokens) for tokens in pair]

    def _scores(self, pairs: list[list[list[int]]]) -> Iterator[tuple[int, str]]:
        """Yields indices and scores of pairs of ids, batch by batch."""
        sources, targets = (Sentences.from_ids([pair[i] for pair in pairs]) for i in range(2))
        for members, source, target in streaming_batches(sources, targets, batch_size=self.batch_size):
            scores = self._scorer(source, target)[: len(members)]
            yield from zip(members, (f"{score:.6f}" for score in scores), strict=True)
