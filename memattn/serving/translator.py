"""Translates lines as they arrive, or scores given pairs."""

import dataclasses
import json
import math
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from memattn import reading
from memattn.data import corpus
from memattn.data.batches import streaming_batches
from memattn.data.bpe import SEPARATOR
from memattn.data.tokenizer import Text, Tokens
from memattn.data.vocabulary import SPECIAL_TOKENS, UNK, Vocabulary
from memattn.errors import ConfigError, DataError
from memattn.runs.trained import Trained
from memattn.runs.trained import load as load_trained
from memattn.search import long_lines
from memattn.search.searcher import Scorer, Searcher, Translation, translation

UNKNOWN = SPECIAL_TOKENS[UNK]
STDIN = "standard input"


class _Part(NamedTuple):
    """A piece of a line with its part of a hypothesis; `weights` [T, S] are its attention, or None."""

    source: list[str]
    target: list[str]
    weights: np.ndarray | None


class Translator:
    """Turns lines of text into lines of output.

    Args:
      searcher: a `Searcher`, or a `SavedSearcher`.
      text, vocabulary: of its model.
      max_source_length: tokens of a line, by default those that the searcher takes; `long_lines` of the search's config
        says what becomes of a longer line.
      scores: write the score before each translation.
      alignment: "hard" writes word alignments (source-target, numbered from 0) after each translation; "soft" writes
        JSON with the weights of all source tokens in its place.
      replace_unknown: replace unknown tokens by the most attended source token.
    """

    def __init__(
        self,
        searcher: Searcher,
        text: Text | Tokens,
        vocabulary: Vocabulary,
        *,
        max_source_length: int | None = None,
        scores: bool = False,
        alignment: Literal["hard", "soft"] | None = None,
        replace_unknown: bool = False,
    ):
        if (alignment or replace_unknown) and not searcher.has_alignments:
            raise ConfigError("--alignment, --replace_unknown: a model without attention has no alignments")
        self._searcher, self._text, self._vocabulary = searcher, text, vocabulary
        self._scores, self._alignment, self._replace_unknown = scores, alignment, replace_unknown
        self._most = max_source_length or searcher.max_source_length or sys.maxsize
        self._long_lines = searcher.config.long_lines
        self.batch_size = searcher.config.batch_size

    def translate(self, lines: list[str]) -> list[str]:
        """The best translation of each line. Raises DataError, also for anything but a list of strings."""
        is_list = isinstance(lines, (list, tuple))
        wrong = [line for line in lines if not isinstance(line, str)] if is_list else [lines]
        if wrong:
            raise DataError(f"lines: must be a list of strings, not {wrong[0]!r:.80} of type {type(wrong[0]).__name__}")
        return list(self(lines, 1, "lines"))

    def __call__(self, lines: list[str], first: int, name: str = STDIN) -> Iterator[str]:
        """Output lines for source lines, which are numbered from `first` on, each as soon as it is ready.

        Raises DataError for a line that is refused, after the output of those before it; warns of one that is split or
        cut. Both messages have the name of the input.
        """
        tokens, error = [self._text.encode(line, "source") for line in lines], None
        for place, line in enumerate(tokens):
            if len(line) > self._most and self._long_lines == "refuse":
                error, tokens = DataError(f"{_too_long(name, first + place, line, self._most)}"), tokens[:place]
                break
        pieces = [self._pieces(line, name, number) for number, line in enumerate(tokens, first)]
        yield from self._lines(pieces, first)
        if error:
            raise error

    def _pieces(self, tokens: list[str], name: str, number: int) -> list[list[str]]:
        """The pieces of a line that are translated one by one."""
        if len(tokens) <= self._most:
            return [tokens]
        if self._long_lines == "cut":
            found, done = [tokens[: self._most]], "the rest is dropped"
        else:
            found = long_lines.pieces(tokens, self._text.word_numbers(tokens), self._most)
            done = f"it is translated in {len(found):,} pieces"
        warnings.warn(f"{_too_long(name, number, tokens, self._most)}; {done}", stacklevel=2)
        return found

    def _lines(self, pieces: list[list[list[str]]], first: int) -> Iterator[str]:
        """Output of the pieces of each line."""
        places = [(line, piece) for line, parts in enumerate(pieces) for piece in range(len(parts))]
        translated = self._translated([pieces[line][piece] for line, piece in places], places, first)
        waiting = in_order(translated, len(places))
        for number, parts in enumerate(pieces, first):
            hypotheses = [next(waiting) for _ in parts]
            for best in zip(*hypotheses, strict=False):  # the i-th best of a line has the i-th best of each piece
                parts_of_it, scores = zip(*best, strict=True)
                yield self._written(number, list(parts_of_it), sum(scores))

    def _translated(
        self, sources: list[list[str]], places: list[tuple[int, int]], first: int
    ) -> Iterator[tuple[int, list[tuple[_Part, float]]]]:
        """Indices of sources with their hypotheses and scores, at least one, batch by batch, the shortest first.

        `places` are the sources' lines and pieces, which decide what is sampled. An empty source stays empty.
        """
        sentences = corpus.from_ids([self._vocabulary.encode(source) for source in sources])
        numbers = np.array([first + line + (piece << 32) for line, piece in places], np.int64)
        for members, ids in streaming_batches(sentences, batch_size=self.batch_size):
            hypotheses = self._searcher(ids, numbers[members])
            found = []
            for row, index in enumerate(members):
                best = translation(hypotheses, row, self._vocabulary) if sources[index] else Translation([[]], [0.0])
                pairs = list(zip(best.hypotheses, best.scores, strict=True)) or [([], -math.inf)]
                found += [(index, target, score) for target, score in pairs]
            weights = self._weights([(sources[index], target) for index, target, _ in found])
            results = {index: [] for index in members}
            for (index, target, score), own in zip(found, weights, strict=True):
                results[index].append((_Part(sources[index], target, own), score))
            yield from results.items()

    def _weights(self, pairs: list[tuple[list[str], list[str]]]) -> list[np.ndarray | None]:
        """Attention [T, S] to source tokens for the tokens of each target, without the ends of sentence; None where
        none is asked for."""
        if not (self._alignment or self._replace_unknown):
            return [None] * len(pairs)
        found = [np.zeros([len(target), len(source)]) for source, target in pairs]
        for members, source, target in _batches(pairs, self._vocabulary, self.batch_size):
            for index, own in zip(members, self._searcher.align(source, target), strict=False):
                found[index] = own[: found[index].shape[0], : found[index].shape[1]]
        return found

    def _written(self, number: int, parts: list[_Part], score: float) -> str:
        """A line of output for the parts of one hypothesis of a line."""
        known = [token for part in parts for token in (self._known(*part) if self._replace_unknown else part.target)]
        text = self._text.detokenize(self._text.decode(known))
        if self._alignment == "soft":
            line = {"line": number, "text": text, "score": round(score, 6) if math.isfinite(score) else None}
            described = [_described(part) for part in parts]
            line |= described[0] if len(parts) == 1 else {"pieces": described}
            return json.dumps(line, ensure_ascii=False)
        fields = [str(number)] if self._searcher.config.n_best > 1 else []
        if self._scores:
            fields.append(f"{score:.6f}")
        fields.append(text)
        return "\t".join([*fields, self._pairs(parts)] if self._alignment else fields)

    def _pairs(self, parts: list[_Part]) -> str:
        """The most attended source word of each target word."""
        sides = [[token for part in parts for token in part[side]] for side in range(2)]
        words = [np.array(self._text.word_numbers(tokens)) for tokens in sides]
        pairs = {}
        for source, target, weights in parts:
            numbers = []
            for side, tokens in enumerate((source, target)):
                numbers.append(words[side][: len(tokens)])
                words[side] = words[side][len(tokens) :]
            if not (source and target):
                continue
            starts = [number[0] for number in numbers]
            local = [number - start for number, start in zip(numbers, starts, strict=True)]
            memberships = [(number[:, None] == np.arange(number.max() + 1)).astype(weights.dtype) for number in local]
            of_words = memberships[1].T @ weights @ memberships[0]  # [target words, source words]
            for word, place in enumerate(of_words.argmax(1)):
                pairs.setdefault(word + starts[1], place + starts[0])
        return " ".join(f"{place}-{word}" for word, place in pairs.items())

    def _known(self, source: list[str], target: list[str], weights: np.ndarray) -> list[str]:
        """The target with unknown tokens replaced by the source token with the largest weight.

        A token that begins or continues a word of the source ends a word of the target where the target does not go on
        with that word.
        """
        if not source:
            return target
        numbers, places = self._text.word_numbers(source), weights.argmax(1)
        known = []
        for i, (token, place) in enumerate(zip(target, places, strict=True)):
            if token != UNKNOWN:
                known.append(token)
                continue
            following = target[i + 1] if i + 1 < len(target) else None
            goes_on = place + 1 < len(source) and numbers[place + 1] == numbers[place]
            if following == UNKNOWN:
                goes_on &= numbers[places[i + 1]] == numbers[place] and places[i + 1] > place
            else:
                goes_on &= following == source[min(place + 1, len(source) - 1)]
            known.append(source[place] if goes_on else source[place].removesuffix(SEPARATOR))
        return known


def _described(part: _Part) -> dict[str, Any]:
    weights = [[round(float(weight), 4) for weight in row] for row in part.weights]
    return {"source": part.source, "target": part.target, "weights": weights}


def _too_long(name: str, number: int, tokens: list[str], most: int) -> str:
    return f"{name}:{number}: {len(tokens):,} tokens, and decoding.max_source_length is {most:,}"


def in_order(results: Iterable[tuple[int, Any]], number: int) -> Iterator:
    """Results 0 to `number` - 1 of pairs of an index and a result, each as soon as it and all before it are there."""
    ready, results = {}, iter(results)
    for index in range(number):
        while index not in ready:
            ready.update([next(results)])
        yield ready.pop(index)


def of_run(trained: Trained, *, n_best: int | None = None, **how: Any) -> Translator:
    """A translator with a trained model, with the arguments of `Translator`. Raises ConfigError."""
    config = trained.config.decoding
    if n_best and n_best > config.beam_size and not config.sample:
        raise ConfigError(f"--nbest: {n_best} is more than decoding.beam_size = {config.beam_size}")
    config = dataclasses.replace(config, n_best=n_best or config.n_best)
    searcher, most = Searcher(trained.model, config, trained.lexicon), trained.max_source_length
    return Translator(searcher, trained.text, trained.vocabulary, max_source_length=most, **how)


def load(run_dir: str, overrides: Sequence[str] = ()) -> Translator:
    """The model of a run folder, ready to `translate` lines.

    `overrides` are as on the command line, such as "decoding.beam_size=5". Raises ConfigError, DataError, RunError,
    OSError.
    """
    if isinstance(overrides, str):
        raise ConfigError(f"overrides: must be a list of strings, not {overrides!r:.80}")
    return of_run(load_trained([run_dir], ["decoding.jit_compile=false", *overrides], None), n_best=1)


class PairScorer:
    """Turns lines `source TAB target` into log-probabilities of the targets, including their end of sentence.

    A pair is scored whole, however long it is, unless `decoding.long_lines` refuses it.
    """

    def __init__(self, trained: Trained):
        self._text, self._vocabulary = trained.text, trained.vocabulary
        self._scorer = Scorer(trained.model)
        self._most, self._refuses = trained.max_source_length, trained.config.decoding.long_lines == "refuse"
        self.batch_size = trained.config.decoding.batch_size

    def __call__(self, lines: list[str], first: int) -> Iterator[str]:
        pairs, error = [], None
        for number, line in enumerate(lines, first):
            texts = line.split("\t")
            if len(texts) != 2:
                error = f"{STDIN}:{number}: expected a source, a tab and a target"
                break
            pair = [self._text.encode(text, side) for text, side in zip(texts, corpus.SIDES, strict=True)]
            if (longer := max(pair, key=len))[self._most :] and self._refuses:
                error = _too_long(STDIN, number, longer, self._most)
                break
            pairs.append(pair)
        yield from in_order(self._scored(pairs), len(pairs))
        if error:
            raise DataError(error)

    def _scored(self, pairs: list[list[list[str]]]) -> Iterator[tuple[int, str]]:
        for members, source, target in _batches(pairs, self._vocabulary, self.batch_size):
            scores = self._scorer(source, target)[: len(members)]
            yield from zip(members, (f"{score:.6f}" for score in scores), strict=True)


def _batches(pairs: list, vocabulary: Vocabulary, batch_size: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Indices and padded ids of pairs of token lists, in few shapes."""
    sides = [corpus.from_ids([vocabulary.encode(tokens) for tokens in side]) for side in zip(*pairs, strict=True)]
    return streaming_batches(*sides, batch_size=batch_size) if sides else iter(())


def available_lines(descriptor: int, first: int, most: int) -> Iterator[list[str]]:
    """Lines of a file descriptor as they arrive: waits for one, then takes all that are waiting, up to a number.

    The number is `first` at first and then twice that of the time before, up to `most`: the first lines do not wait
    for hundreds of others. Raises DataError, OSError.
    """
    number, waiting, rest, ended = 1, [], [], False
    while not ended:
        block = os.read(descriptor, 1 << 16)  # does not wait for a full block
        ended = not block
        head, *lines = block.split(b"\n")
        rest.append(head)
        if lines or ended:
            *whole, last = [b"".join(rest), *lines]
            waiting, rest = [*whole, *[last] * bool(ended and last)], [last]
        while waiting:
            lines, error = _decoded(waiting[:first], number)
            if lines:
                yield lines
            if error:
                raise error
            number, waiting = number + len(lines), waiting[first:]
            first = min(2 * first, most)
        if sum(map(len, rest)) > reading.LONGEST_LINE:
            raise DataError(f"{STDIN}:{number}: a line of more than {reading.LONGEST_LINE:,} bytes")


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
    """Writes the results to standard output, each as soon as it is ready."""
    number = 1
    for lines in batches:
        for line in work(lines, number):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        number += len(lines)
