"""Translates the lines of standard input as they come, or scores given pairs.

memattn-translate --run_dir runs/multi30k < source.txt > translations.txt
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import dataclasses
import math
import os
import sys
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf
from absl import flags

from memattn import corpus, decoding
from memattn.data import streaming_batches
from memattn.decoding import Translation
from memattn.errors import ConfigError, DataError
from memattn.trained import Trained, load
from memattn.vocab import SPECIAL_TOKENS, UNK

UNKNOWN = SPECIAL_TOKENS[UNK]
STDIN = "standard input"


class Translator:
    """Lines of text to lines of output.

    Args:
      trained: the model.
      n_best: hypotheses of a line; with more than one, each line of output begins with the number of its source.
      scores: put the score before each translation.
      alignments: put word alignments (source-target, numbered from 0) after it, and replace unknown words by the most
        attended source word.
    """

    def __init__(self, trained: Trained, *, n_best: int, scores: bool, alignments: bool):
        self._trained, self._scores, self._alignments = trained, scores, alignments
        config = trained.config.decoding
        if n_best > config.beam_size:
            raise ConfigError(f"--nbest: {n_best} is more than decoding.beam_size = {config.beam_size}")
        if alignments and not trained.model.has_alignments:
            raise ConfigError("--alignments: a model without attention has none")
        self._config = dataclasses.replace(config, n_best=n_best)
        self._searcher = decoding.Searcher(trained.model, self._config)
        self._align = tf.function(lambda *ids: trained.model.alignments(*ids)[0], autograph=False)

    def __call__(self, lines: list[str], first: int) -> Iterable[str]:
        """Output lines of the source lines, of which `first` is the number of the first."""
        tokens = [self._trained.text.encode(line, "source") for line in lines]
        sentences = corpus.from_ids([self._trained.vocabulary.encode(one) for one in tokens])
        translations = [Translation([[]], [0.0]) for _ in lines]
        for members, source in streaming_batches(sentences, batch_size=self._config.batch_size):
            hypotheses = self._searcher(source)
            for row, index in enumerate(members):
                if tokens[index]:  # an empty line stays empty
                    translations[index] = decoding.translation(hypotheses, row, self._trained.vocabulary)
        return [
            line
            for number, (source, translation) in enumerate(zip(tokens, translations, strict=True), first)
            for line in self._written(number, source, translation)
        ]

    def _written(self, number: int, source: list[str], translation: Translation) -> Iterator[str]:
        hypotheses = list(zip(translation.hypotheses, translation.scores, strict=True)) or [([], -math.inf)]
        for tokens, score in hypotheses:  # a line at least, or all that follow belong to other sources
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
        """Attention [T, S] to each source token while each target token is written, ends of sentence left out."""
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


class PairScorer:
    """Lines of `source TAB target` to the log-probabilities of the targets, their ends of sentence included."""

    def __init__(self, trained: Trained):
        self._trained = trained
        self._scorer = decoding.Scorer(trained.model)

    def __call__(self, lines: list[str], first: int) -> Iterator[str]:
        for number, line in enumerate(lines, first):
            texts = line.split("\t")
            if len(texts) != 2:
                raise DataError(f"{STDIN}:{number}: expected a source, a tab and a target")
            tokens = [self._trained.text.encode(text, side) for text, side in zip(texts, corpus.SIDES, strict=True)]
            yield f"{self._scorer(*(_padded(self._trained, one) for one in tokens))[0]:.6f}"


def _padded(trained: Trained, tokens: list[str]) -> np.ndarray:
    """Ids [1, S] of a sentence's tokens, as wide as those of many others."""
    sentence = corpus.from_ids([trained.vocabulary.encode(tokens)])
    ((_, ids),) = streaming_batches(sentence, batch_size=1)
    return ids


def available_lines(descriptor: int, most: int) -> Iterator[list[str]]:
    """Lines of a file descriptor as they come: waits for one, then takes those that are there, up to `most`.

    Raises DataError, OSError.
    """
    number, waiting, rest, ended = 1, [], b"", False
    while not ended:
        block = os.read(descriptor, 1 << 16)  # what is there, and no more
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
    """Writes what becomes of the lines to standard output, each batch at once; what came before an error is out."""
    number = 1
    for lines in batches:
        try:
            for line in work(lines, number):
                sys.stdout.write(f"{line}\n")
        finally:
            sys.stdout.flush()
        number += len(lines)


def _main() -> int:
    options = flags.FLAGS
    if options.score and (options.nbest or options.scores or options.alignments):
        raise ConfigError("--score: scores given pairs; --nbest, --scores and --alignments are of translations")
    if sys.stdin is None:
        raise ConfigError("standard input is closed; give it lines to translate")
    trained = load(options.run_dir, ["decoding.jit_compile=false", *options.set], options.average)
    if options.score:
        work = PairScorer(trained)
    else:
        n_best = options.nbest or trained.config.decoding.n_best
        work = Translator(trained, n_best=n_best, scores=options.scores, alignments=options.alignments)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        translate(work, available_lines(sys.stdin.fileno(), 16 * trained.config.decoding.batch_size))
    except BrokenPipeError:  # the reader has seen enough
        cli.silence()
    return 0


def main() -> None:
    flags.DEFINE_multi_string("run_dir", None, "Run folder of memattn.train; several make an ensemble.", required=True)
    flags.DEFINE_multi_string("set", [], "Override, as decoding.beam_size=5; repeatable.")
    flags.DEFINE_integer("average", None, "Average the last so many checkpoints; else the best one.", lower_bound=1)
    flags.DEFINE_integer("nbest", None, "Hypotheses of each line, its number before each.", lower_bound=1)
    flags.DEFINE_boolean("scores", False, "Put the score before each translation.")
    flags.DEFINE_boolean("alignments", False, "Put word alignments after it; replace unknown words.")
    flags.DEFINE_boolean("score", False, "Print log-probabilities of pairs: lines of source, tab, target.")
    cli.run(_main)


if __name__ == "__main__":
    main()
