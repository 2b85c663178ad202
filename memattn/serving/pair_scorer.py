"""Scores given translations: the log-probability of each target, given its source."""

from collections.abc import Iterator

from memattn.data.batches import streaming_batches
from memattn.data.sentences import Sentences
from memattn.errors import DataError
from memattn.runs.trained import Trained
from memattn.search.scorer import Scorer
from memattn.serving.streaming import STDIN, in_order, too_long


class PairScorer:
    """Turns lines `source TAB target` into log-probabilities of the targets, including their end of sentence.

    A pair is scored as it is, however long it is, unless `decoding.long_lines` refuses it.

    Args:
      trained: a trained model.

    Attributes:
      batch_size: number of pairs that are scored at a time.

    Raises ConfigError for a model whose sources are no text.
    """

    def __init__(self, trained: Trained):
        trained.check_reads_text("memattn-translate --score")
        self._tokenizer, self._vocabulary = trained.tokenizer, trained.vocabulary
        self._scorer = Scorer(trained.model)
        self._most_tokens = trained.max_source_length
        self._refuses_long = trained.config.decoding.long_lines == "refuse"
        self.batch_size = trained.config.decoding.batch_size

    def __call__(self, lines: list[str], first: int) -> Iterator[str]:
        """Yields the score of each line, as soon as it is ready.

        `first` is the number of the first line. Raises DataError for a line that is no pair, or is refused, after the
        scores of the lines before it.
        """
        pairs, error = [], None
        for number, line in enumerate(lines, first):
            texts = line.split("\t")
            if len(texts) != 2:
                error = f"{STDIN}:{number}: expected a source, a tab and a target"
                break
            source, target = self._tokenizer.encode(texts[0], "source"), self._tokenizer.encode(texts[1], "target")
            longer = max(source, target, key=len)
            if len(longer) > self._most_tokens and self._refuses_long:
                error = too_long(STDIN, number, longer, self._most_tokens)
                break
            pairs.append((self._vocabulary.encode(source), self._vocabulary.encode(target)))
        yield from in_order(self._score(pairs), len(pairs))
        if error:
            raise DataError(error)

    def _score(self, pairs: list[tuple[list[int], list[int]]]) -> Iterator[tuple[int, str]]:
        """Yields indices and scores of pairs of ids, batch by batch."""
        sources = Sentences.from_ids([source for source, _ in pairs])
        targets = Sentences.from_ids([target for _, target in pairs])
        for members, source, target in streaming_batches(sources, targets, batch_size=self.batch_size):
            scores = self._scorer(source, target)[: len(members)]
            yield from zip(members, (f"{score:.6f}" for score in scores), strict=True)
