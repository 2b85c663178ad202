"""Translates lines as they arrive, or scores given pairs."""

import dataclasses
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from memattn.data import corpus
from memattn.data.batches import streaming_batches
from memattn.data.vocabulary import SPECIAL_TOKENS, UNK
from memattn.errors import ConfigError, DataError
from memattn.runs.trained import Trained
from memattn.runs.trained import load as load_trained
from memattn.search.searcher import Scorer, Searcher, Translation, translation

UNKNOWN = SPECIAL_TOKENS[UNK]
STDIN = "standard input"


class Translator:
    """Turns lines of text into lines of output.

    Args:
      trained: the model.
      n_best: hypotheses per line; if more than one, each output line begins with the number of its source.
      scores: write the score before each translation.
      alignments: write word alignments (source-target, numbered from 0) after each translation, and replace unknown
        words by the most attended source word.
    """

    def __init__(self, trained: Trained, *, n_best: int, scores: bool, alignments: bool):
        self._trained, self._scores, self._alignments = trained, scores, alignments
        config = trained.config.decoding
        if n_best > config.beam_size:
            raise ConfigError(f"--nbest: {n_best} is more than decoding.beam_size = {config.beam_size}")
        if alignments and not trained.model.has_alignments:
            raise ConfigError("--alignments: a model without attention has none")
        self._config = dataclasses.replace(config, n_best=n_best)
        self._searcher = Searcher(trained.model, self._config, trained.lexicon)
        self._align = tf.function(lambda *ids: trained.model.alignments(*ids)[0], autograph=False)

    def translate(self, lines: list[str]) -> list[str]:
        """The best translation of each line. Raises DataError."""
        return list(self(lines, 1))

    def __call__(self, lines: list[str], first: int) -> Iterable[str]:
        """Output lines for source lines that are numbered from `first` on."""
        tokens = [self._trained.text.encode(line, "source") for line in lines]
        sentences = corpus.from_ids([self._trained.vocabulary.encode(one) for one in tokens])
        translations = [Translation([[]], [0.0]) for _ in lines]
        for members, source in streaming_batches(sentences, batch_size=self._config.batch_size):
            hypotheses = self._searcher(source)
            for row, index in enumerate(members):
                if tokens[index]:  # an empty line stays empty
                    translations[index] = translation(hypotheses, row, self._trained.vocabulary)
        return [
            line
            for number, (source, translation) in enumerate(zip(tokens, translations, strict=True), first)
            for line in self._written(number, source, translation)
        ]

    def _written(self, number: int, source: list[str], translation: Translation) -> Iterator[str]:
        hypotheses = list(zip(translation.hypotheses, translation.scores, strict=True)) or [([], -math.inf)]
        for tokens, score in hypotheses:  # at least one line, to keep later lines with their sources
            fields = [str(number)] if self._config.n_best > 1 else []
            if self._scores:
                fields.append(f"{score:.6f}")
            pairs = ""
            if self._alignments and tokens:
                weights = self._weights(source, tokens)
                pairs = self._pairs(source, tokens, weights)
                tokens = self._known(source, tokens, weights)
            fields.append(self._trained.text.detokenize(self._trained.text.decode(tokens)))
            yield "\t".join([*fields, pairs] if self._alignments else fields)

    def _weights(self, source: list[str], target: list[str]) -> np.ndarray:
        """Attention [T, S] to source tokens for each target token, without the ends of sentence."""
        weights = self._align(*(tf.constant(_padded(self._trained, tokens)) for tokens in (source, target)))[0].numpy()
        return weights[: len(target), : len(source)]

    def _pairs(self, source: list[str], target: list[str], weights: np.ndarray) -> str:
        """The most attended source word of each target word."""
        words = [np.array(self._trained.text.word_numbers(tokens)) for tokens in (source, target)]
        memberships = [(number[:, None] == np.arange(number.max() + 1)).astype(weights.dtype) for number in words]
        of_words = memberships[1].T @ weights @ memberships[0]  # [target words, source words]
        return " ".join(f"{place}-{word}" for word, place in enumerate(of_words.argmax(1)))

    def _known(self, source: list[str], target: list[str], weights: np.ndarray) -> list[str]:
        numbers = self._trained.text.word_numbers(source)
        known = []
        for token, attended in zip(target, weights.argmax(1), strict=True):
            if token == UNKNOWN:
                known += [unit for unit, number in zip(source, numbers, strict=True) if number == numbers[attended]]
            else:
                known.append(token)
        return known


def load(run_dir: str, overrides: Sequence[str] = ()) -> Translator:
    """The model of a run folder, ready to `translate` lines.

    `overrides` are as on the command line, such as "decoding.beam_size=5". Raises ConfigError, DataError, RunError,
    OSError.
    """
    trained = load_trained([run_dir], ["decoding.jit_compile=false", *overrides], None)
    return Translator(trained, n_best=1, scores=False, alignments=False)


class PairScorer:
    """Turns lines `source TAB target` into log-probabilities of the targets, including their end of sentence."""

    def __init__(self, trained: Trained):
        self._trained = trained
        self._scorer = Scorer(trained.model)

    def __call__(self, lines: list[str], first: int) -> Iterator[str]:
        for number, line in enumerate(lines, first):
            texts = line.split("\t")
            if len(texts) != 2:
                raise DataError(f"{STDIN}:{number}: expected a source, a tab and a target")
            tokens = [self._trained.text.encode(text, side) for text, side in zip(texts, corpus.SIDES, strict=True)]
            yield f"{self._scorer(*(_padded(self._trained, one) for one in tokens))[0]:.6f}"


def _padded(trained: Trained, tokens: list[str]) -> np.ndarray:
    """Ids [1, S] of a sentence's tokens, padded to one of few widths."""
    sentence = corpus.from_ids([trained.vocabulary.encode(tokens)])
    ((_, ids),) = streaming_batches(sentence, batch_size=1)
    return ids


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
            taken = waiting[start : start + most]
            yield [corpus.decode_lines(b"%b\n" % line, STDIN, number + i)[0] for i, line in enumerate(taken)]
            number += len(taken)
        waiting = []


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
