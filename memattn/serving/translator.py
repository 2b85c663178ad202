"""Translates lines as they arrive, or scores given pairs."""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from memattn.data import corpus
from memattn.data.batches import streaming_batches
from memattn.data.tokenizer import Text, Tokens
from memattn.data.vocabulary import SPECIAL_TOKENS, UNK, Vocabulary
from memattn.errors import ConfigError, DataError
from memattn.runs.trained import Trained
from memattn.runs.trained import load as load_trained
from memattn.search.searcher import Scorer, Searcher, Translation, translation

UNKNOWN = SPECIAL_TOKENS[UNK]
STDIN = "standard input"


class Translator:
    """Turns lines of text into lines of output.

    Args:
      searcher: a `Searcher`, or a `SavedSearcher`.
      text, vocabulary: of its model.
      scores: write the score before each translation.
      alignment: "hard" writes word alignments (source-target, numbered from 0) after each translation; "soft" writes
        JSON with the weights of all source tokens in its place.
      replace_unknown: replace unknown words by the most attended source word.
    """

    def __init__(
        self,
        searcher: Searcher,
        text: Text | Tokens,
        vocabulary: Vocabulary,
        *,
        scores: bool = False,
        alignment: Literal["hard", "soft"] | None = None,
        replace_unknown: bool = False,
    ):
        if (alignment or replace_unknown) and not searcher.has_alignments:
            raise ConfigError("--alignment, --replace_unknown: a model without attention has no alignments")
        self._searcher, self._text, self._vocabulary = searcher, text, vocabulary
        self._scores, self._alignment, self._replace_unknown = scores, alignment, replace_unknown
        self.batch_size = searcher.config.batch_size

    def translate(self, lines: list[str]) -> list[str]:
        """The best translation of each line. Raises DataError, also for anything but a list of strings."""
        is_list = isinstance(lines, (list, tuple))
        wrong = [line for line in lines if not isinstance(line, str)] if is_list else [lines]
        if wrong:
            raise DataError(f"lines: must be a list of strings, not {wrong[0]!r:.80} of type {type(wrong[0]).__name__}")
        return list(self(lines, 1))

    def __call__(self, lines: list[str], first: int) -> Iterable[str]:
        """Output lines for source lines that are numbered from `first` on.

        A line that is too long for an exported model raises DataError after those before it.
        """
        tokens = [self._text.encode(line, "source") for line in lines]
        most = self._searcher.max_source_length
        for place, one in enumerate(tokens):
            if most is not None and len(one) > most:
                problem = f"{STDIN}:{first + place}: {len(one):,} tokens; the model was exported for at most {most:,}"
                return _and_then(self._lines(tokens[:place], first), DataError(problem))
        return self._lines(tokens, first)

    def _lines(self, tokens: list[list[str]], first: int) -> list[str]:
        found = self._found(tokens, first)
        pairs = [
            (number, tokens[number - first], hypothesis, score)
            for number, one in enumerate(found, first)
            # At least one line for each source, to keep later lines with theirs.
            for hypothesis, score in list(zip(one.hypotheses, one.scores, strict=True)) or [([], -math.inf)]
        ]
        weights = [None] * len(pairs)
        if self._alignment or self._replace_unknown:
            weights = self._weights([(source, target) for _, source, target, _ in pairs])
        return [self._written(*pair, own) for pair, own in zip(pairs, weights, strict=True)]

    def _found(self, tokens: list[list[str]], first: int) -> list[Translation]:
        """Translations of lines of tokens; an empty line stays empty."""
        sentences = corpus.from_ids([self._vocabulary.encode(one) for one in tokens])
        found = [Translation([[]], [0.0]) for _ in tokens]
        for members, source in streaming_batches(sentences, batch_size=self.batch_size):
            hypotheses = self._searcher(source, members + first)
            for row, index in enumerate(members):
                if tokens[index]:
                    found[index] = translation(hypotheses, row, self._vocabulary)
        return found

    def _weights(self, pairs: list[tuple[list[str], list[str]]]) -> list[np.ndarray]:
        """Attention [T, S] to source tokens for the tokens of each target, without the ends of sentence."""
        found = [np.zeros([len(target), len(source)]) for source, target in pairs]
        for members, source, target in _batches(pairs, self._vocabulary, self.batch_size):
            for index, own in zip(members, self._searcher.align(source, target), strict=False):
                found[index] = own[: found[index].shape[0], : found[index].shape[1]]
        return found

    def _written(
        self, number: int, source: list[str], target: list[str], score: float, weights: np.ndarray | None
    ) -> str:
        """A line of output for a source, one of its hypotheses, and the weights [T, S]."""
        known = self._known(source, target, weights) if self._replace_unknown else target
        text = self._text.detokenize(self._text.decode(known))
        if self._alignment == "soft":
            line = {
                "line": number,
                "text": text,
                "score": round(score, 6) if math.isfinite(score) else None,
                "source": source,
                "target": target,
                "weights": [[round(float(weight), 4) for weight in row] for row in weights],
            }
            return json.dumps(line, ensure_ascii=False)
        fields = [str(number)] if self._searcher.config.n_best > 1 else []
        if self._scores:
            fields.append(f"{score:.6f}")
        fields.append(text)
        return "\t".join([*fields, self._pairs(source, target, weights)] if self._alignment else fields)

    def _pairs(self, source: list[str], target: list[str], weights: np.ndarray) -> str:
        """The most attended source word of each target word."""
        if not (source and target):
            return ""
        words = [np.array(self._text.word_numbers(tokens)) for tokens in (source, target)]
        memberships = [(number[:, None] == np.arange(number.max() + 1)).astype(weights.dtype) for number in words]
        of_words = memberships[1].T @ weights @ memberships[0]  # [target words, source words]
        return " ".join(f"{place}-{word}" for word, place in enumerate(of_words.argmax(1)))

    def _known(self, source: list[str], target: list[str], weights: np.ndarray) -> list[str]:
        """The target with unknown words replaced by the source word with the largest weight."""
        numbers = self._text.word_numbers(source)
        known = []
        for token, own in zip(target, weights, strict=True):
            if token == UNKNOWN:
                attended = numbers[own.argmax()]
                known += [unit for unit, number in zip(source, numbers, strict=True) if number == attended]
            else:
                known.append(token)
        return known


def _and_then(lines: list[str], error: DataError) -> Iterator[str]:
    yield from lines
    raise error


def of_run(trained: Trained, *, n_best: int | None = None, **how: Any) -> Translator:
    """A translator with a trained model, with the arguments of `Translator`. Raises ConfigError."""
    config = trained.config.decoding
    if n_best and n_best > config.beam_size and not config.sample:
        raise ConfigError(f"--nbest: {n_best} is more than decoding.beam_size = {config.beam_size}")
    config = dataclasses.replace(config, n_best=n_best or config.n_best)
    return Translator(Searcher(trained.model, config, trained.lexicon), trained.text, trained.vocabulary, **how)


def load(run_dir: str, overrides: Sequence[str] = ()) -> Translator:
    """The model of a run folder, ready to `translate` lines.

    `overrides` are as on the command line, such as "decoding.beam_size=5". Raises ConfigError, DataError, RunError,
    OSError.
    """
    if isinstance(overrides, str):
        raise ConfigError(f"overrides: must be a list of strings, not {overrides!r:.80}")
    return of_run(load_trained([run_dir], ["decoding.jit_compile=false", *overrides], None), n_best=1)


class PairScorer:
    """Turns lines `source TAB target` into log-probabilities of the targets, including their end of sentence."""

    def __init__(self, trained: Trained):
        self._text, self._vocabulary = trained.text, trained.vocabulary
        self._scorer = Scorer(trained.model)
        self.batch_size = trained.config.decoding.batch_size

    def __call__(self, lines: list[str], first: int) -> Iterator[str]:
        pairs = []
        for line in lines:
            texts = line.split("\t")
            if len(texts) != 2:
                break
            pairs.append([self._text.encode(text, side) for text, side in zip(texts, corpus.SIDES, strict=True)])
        scores = np.zeros(len(pairs))
        for members, source, target in _batches(pairs, self._vocabulary, self.batch_size):
            scores[members] = self._scorer(source, target)[: len(members)]
        yield from (f"{score:.6f}" for score in scores)
        if len(pairs) < len(lines):
            raise DataError(f"{STDIN}:{first + len(pairs)}: expected a source, a tab and a target")


def _batches(pairs: list, vocabulary: Vocabulary, batch_size: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Indices and padded ids of pairs of token lists, in few shapes."""
    sides = [corpus.from_ids([vocabulary.encode(tokens) for tokens in side]) for side in zip(*pairs, strict=True)]
    return streaming_batches(*sides, batch_size=batch_size) if sides else iter(())


def available_lines(descriptor: int, most: int) -> Iterator[list[str]]:
    """Lines of a file descriptor as they arrive: waits for one, then takes all that are waiting, up to `most`.

    Raises DataError, OSError.
    """
    number, waiting, rest, ended = 1, [], b"", False
    while not ended:
        block = os.read(descriptor, 1 << 16)  # does not wait for a full block
        ended = not block
        *whole, rest = (rest + block).split(b"\n")
        waiting += whole
        if ended and rest:
            waiting.append(rest)
        for start in range(0, len(waiting), most):
            lines, error = _decoded(waiting[start : start + most], number)
            if lines:
                yield lines
            if error:
                raise error
            number += len(lines)
        waiting = []


def _decoded(waiting: list[bytes], first: int) -> tuple[list[str], DataError | None]:
    """Lines up to the first that is not UTF-8, and the error for that one."""
    lines = []
    for number, line in enumerate(waiting, first):
        try:
            lines += corpus.decode_lines(b"%b\n" % line, STDIN, number)
        except DataError as error:
            return lines, error
    return lines, None


def translate(work: Translator | PairScorer, batches: Iterable[list[str]]) -> None:
    """Writes the results to standard output, flushed after each batch, also when an error ends it."""
    number = 1
    for lines in batches:
        try:
            for line in work(lines, number):
                sys.stdout.write(f"{line}\n")
        finally:
            sys.stdout.flush()
        number += len(lines)
