"""Scores given translations: the log-probability of each target, given its source."""

from collections.abc import Iterator

from memattn.data.batches import streaming_batches
from memattn.data.sentences import Sentences
from memattn.errors import DataError
from memattn.runs.trained import Trained
from memattn.search.scorer import Scorer
from memattn.serving.streaming import STDIN, in_order, too_long, until_error


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
