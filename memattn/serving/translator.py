"""Translates lines of text with a trained model."""

import dataclasses
import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from memattn.data import corpus
from memattn.data import tokenizer as tokenizers
from memattn.data.batches import streaming_batches
from memattn.data.sentences import Sentences
from memattn.data.tokenizer import Tokenizer
from memattn.data.units import SEPARATOR
from memattn.data.vocabulary import UNK, Vocabulary
from memattn.errors import ConfigError, DataError, abbreviated
from memattn.options import listed
from memattn.search.translation import translations
from memattn.serving.lines import STDIN, in_order, too_long, until_error
from memattn.serving.onnx_searcher import OnnxSearcher

if TYPE_CHECKING:  # a function below imports TensorFlow when it is called; the class needs none
    from memattn.runs.trained import Trained
    from memattn.search.searcher import Searcher

WITHOUT_XLA = "decoding.jit_compile=false"  # compiling takes longer than a few translations
_SENTENCE_ENDS = tuple(".!?…。！？؟।")
_SENTENCE_ENDS_WITHIN_WORDS = tuple("。！？")  # in scripts without blanks between words


class Part(NamedTuple):
    """A piece of a source line with a translation."""

    source: list[str]  # tokens [S] of the piece
    target: list[str]  # tokens [T] of its translation
    weights: np.ndarray  # attention weights [T, S] of the source tokens for each target token; empty if not needed
    score: float = 0.0  # that of the translation


class Translator:
    """Turns lines of text into lines of output.

    Args:
      searcher: finds the translations. Its config says how many each line gets, and what happens to a line that is too
        long.
      tokenizer: turns lines into tokens, and tokens into lines.
      vocabulary: vocabulary of source and target.
      max_source_length: upper bound on the tokens of a line that is translated in one piece.
      scores: whether to write the score before each translation.
      alignment: "hard" writes word alignments (source-target, numbered from 0) after each translation; "soft" writes
        JSON with the weights of all source tokens instead of the line; None writes neither.

    Attributes:
      batch_size: number of lines that are translated at a time.

    Raises ConfigError for alignments of a model without attention.
    """

    def __init__(
        self,
        searcher: "Searcher | OnnxSearcher",
        tokenizer: Tokenizer,
        vocabulary: Vocabulary,
        max_source_length: int,
        *,
        scores: bool = False,
        alignment: Literal["hard", "soft"] | None = None,
    ):
        if alignment and not searcher.has_alignments:
            raise ConfigError("--alignment: a model without attention has no alignments")
        self._searcher, self._config = searcher, searcher.config
        self._tokenizer, self._vocabulary = tokenizer, vocabulary
        self._max_source_length = max_source_length
        self._scores, self._alignment = scores, alignment
        self._warned: set[str] = set()  # kinds of warnings that are given once
        self.batch_size = searcher.config.batch_size

    def translate(self, lines: list[str]) -> list[str]:
        """Returns the best translation of each line. Raises DataError, also for a string in place of a list."""
        if isinstance(lines, str):
            raise DataError(f"lines: must be a list of strings, not the string {abbreviated(lines)}")
        return list(self(lines, 1, "lines"))

    def __call__(self, lines: list[str], first: int, name: str = STDIN) -> Iterator[str]:
        """Yields the output lines of source lines, each as soon as it is ready.

        `first` is the number of the first line, and `name` that of the input, for messages. Warns about a line that is
        split or cut, about the first line with tokens that the vocabulary lacks, and about the first for which the
        model's outputs are not finite. Raises DataError for a line that is refused, after the output of the lines
        before it.
        """
        pieces = (
            self._pieces(self._tokenizer.encode(line, "source"), f"{name}:{number}")
            for number, line in enumerate(lines, first)
        )
        yield from until_error(pieces, lambda pieces: self._output(pieces, first, name))

    def _output(self, pieces: list[list[list[str]]], first: int, name: str) -> Iterator[str]:
        """Yields the output lines of lines in pieces; the other arguments are those of `__call__`."""
        indices = [(line, piece) for line, line_pieces in enumerate(pieces) for piece in range(len(line_pieces))]
        results = self._search([pieces[line][piece] for line, piece in indices], indices, first)
        ranked = in_order(results, len(indices))
        for number, line_pieces in enumerate(pieces, first):
            # The i-th best translation of a line consists of the i-th best of each piece.
            for parts in zip(*[next(ranked) for _ in line_pieces], strict=False):
                if not math.isfinite(sum(part.score for part in parts)):
                    what = "the model's outputs are not finite, so that the translation is empty or lacks a piece"
                    self._warn_once("failure", f"{name}:{number}: {what}")
                yield self._output_line(number, list(parts))

    def _pieces(self, tokens: list[str], place: str) -> list[list[str]]:
        """Returns the pieces of a line that are translated one by one; `place` names the line in messages."""
        if unknown := [token for token in tokens if self._vocabulary.ids.get(token, UNK) == UNK]:
            what = f"{len(unknown):,} of {len(tokens):,} tokens are not in the vocabulary"
            self._warn_once("unknown", f"{place}: {what}: {listed(dict.fromkeys(unknown))}")
        if len(tokens) <= self._max_source_length:
            return [tokens]
        problem = too_long(place, tokens, self._max_source_length)
        if self._config.long_lines == "refuse":
            raise DataError(problem)
        if self._config.long_lines == "cut":
            pieces, action = [tokens[: self._max_source_length]], "the rest is dropped"
        else:
            pieces = split(tokens, self._tokenizer.word_numbers(tokens), self._max_source_length)
            action = f"it is translated in {len(pieces):,} pieces"
        warnings.warn(f"{problem}; {action}", stacklevel=2)
        return pieces

    def _warn_once(self, kind: str, message: str) -> None:
        """Gives the first warning of its kind."""
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(f"{message} (further lines like this are not named)", stacklevel=3)

    def _search(
        self, sources: list[list[str]], indices: list[tuple[int, int]], first: int
    ) -> Iterator[tuple[int, list[Part]]]:
        """Yields, for each source, its index and its ranked translations; short sources come first.

        Every source has at least one translation; that of an empty source is empty. Samples depend on the `indices` of
        a source: that of its line, and that of its piece.
        """
        sentences = Sentences.from_ids([self._vocabulary.encode(source) for source in sources])
        numbers = np.array([first + line + (piece << 32) for line, piece in indices], np.int64)
        for members, ids in streaming_batches(sentences, batch_size=self.batch_size):
            results = translations(self._searcher(ids, numbers[members]), self._vocabulary)
            ranked, no_weights = {}, np.zeros([0, 0])
            for index, (targets, scores) in zip(members, results, strict=False):  # further rows are padding
                pairs = list(zip(targets, scores, strict=True)) or [([], -math.inf)]
                if not sources[index]:
                    pairs = [([], 0.0)]
                ranked[index] = [Part(sources[index], target, no_weights, score) for target, score in pairs]
            yield from self._with_weights(ranked).items() if self._alignment else ranked.items()

    def _with_weights(self, ranked: dict[int, list[Part]]) -> dict[int, list[Part]]:
        """Adds the attention weights [T, S], without the ends of sentence, to translations."""
        indices = [(index, rank) for index, parts in ranked.items() for rank in range(len(parts))]
        parts = [ranked[index][rank] for index, rank in indices]
        sources = Sentences.from_ids([self._vocabulary.encode(part.source) for part in parts])
        targets = Sentences.from_ids([self._vocabulary.encode(part.target) for part in parts])
        for members, source, target in streaming_batches(sources, targets, batch_size=self.batch_size):
            for member, matrix in zip(members, self._searcher.align(source, target), strict=False):
                (index, rank), part = indices[member], parts[member]
                weights = matrix[: len(part.target), : len(part.source)]
                ranked[index][rank] = part._replace(weights=weights)
        return ranked

    def _output_line(self, number: int, parts: list[Part]) -> str:
        """Returns the output of line `number` for the parts of one translation."""
        words = " ".join(filter(None, self._tokenizer.decode([part.target for part in parts])))
        (text,), score = self._tokenizer.detokenize([words]), sum(part.score for part in parts)
        if self._alignment == "soft":
            pieces = [
                {"source": source, "target": target, "weights": [[round(float(w), 4) for w in row] for row in weights]}
                for source, target, weights, _ in parts
            ]
            line = {"line": number, "text": text, "score": round(score, 6) if math.isfinite(score) else None}
            line |= pieces[0] if len(pieces) == 1 else {"pieces": pieces}
            return json.dumps(line, ensure_ascii=False)
        fields = [str(number)] if self._config.n_best > 1 else []
        fields += [f"{score:.6f}"] if self._scores else []
        fields.append(text)
        if self._alignment == "hard":
            fields.append(word_alignment(parts, self._tokenizer.word_numbers))
        return "\t".join(fields)


def split(tokens: list[str], word_numbers: list[int], max_tokens: int) -> list[list[str]]:
    """Splits a line into consecutive pieces of at most `max_tokens` tokens, by the number of each token's word.

    A piece ends with the last sentence that ends in the second half of its `max_tokens`. Without such a sentence, it
    ends with the last word that fits, and if not even a word fits, with the last token.
    """
    pieces, start = [], 0
    while len(tokens) - start > max_tokens:
        ends = range(start + max_tokens, start, -1)
        sentences = (end for end in ends[: (max_tokens + 1) // 2] if _ends_a_sentence(tokens, word_numbers, end))
        words = (end for end in ends if word_numbers[end - 1] != word_numbers[end])
        end = next(sentences, None) or next(words, None) or start + max_tokens
        pieces.append(tokens[start:end])
        start = end
    return [*pieces, tokens[start:]]


def _ends_a_sentence(tokens: list[str], word_numbers: list[int], end: int) -> bool:
    """Returns whether a sentence ends before the token with the index `end`."""
    is_within_word = word_numbers[end - 1] == word_numbers[end]
    ends = _SENTENCE_ENDS_WITHIN_WORDS if is_within_word else _SENTENCE_ENDS
    return tokens[end - 1].removesuffix(SEPARATOR).endswith(ends)


def word_alignment(parts: list[Part], word_numbers: Callable[[list[str]], list[int]]) -> str:
    """Returns the most attended source word of each target word of a line, as pairs `source-target`, numbered from 0.

    `word_numbers` returns the number of the word of each token. The weight between two words is the sum over their
    tokens. A word of the source may continue in the next part; the target has a blank between parts.
    """
    source_words = np.array(word_numbers([token for part in parts for token in part.source]), np.int64)
    pairs: list[str] = []
    start = 0
    for source, target, weights, _ in parts:
        here = source_words[start : start + len(source)]
        start += len(source)
        if source and target:
            target_words = np.array(word_numbers(target), np.int64)
            between_words = _membership(target_words, weights.dtype).T @ weights @ _membership(here, weights.dtype)
            pairs += [f"{here[0] + word}-{len(pairs) + i}" for i, word in enumerate(between_words.argmax(1))]
    return " ".join(pairs)


def _membership(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Returns a matrix [tokens, words] with 1 where a token belongs to a word; the words' numbers are consecutive."""
    return (words[:, None] == np.arange(words[0], words[-1] + 1)).astype(dtype)


def from_trained(trained: "Trained", *, n_best: int | None = None, **options: Any) -> Translator:
    """Returns a translator with a trained model.

    It gives `n_best` translations of each line, by default `decoding.n_best` of them. `options` are `scores` and
    `alignment` of `Translator`. Raises ConfigError for a model whose sources are no text, for more translations than
    the beam has, and for alignments of a model without attention.
    """
    from memattn.search.searcher import Searcher

    trained.check_reads_text("translation")
    config = trained.config.decoding
    if n_best and n_best > config.beam_size and not config.sample:
        raise ConfigError(f"--nbest: {n_best} is more than decoding.beam_size = {config.beam_size}")
    searcher = Searcher(trained.model, dataclasses.replace(config, n_best=n_best or config.n_best), trained.lexicon)
    return Translator(searcher, trained.tokenizer, trained.vocabulary, trained.max_source_length, **options)


def load(run_dir: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Translator:
    """Loads the model of a run folder, ready to `translate` lines.

    Args:
      run_dir: the run folder.
      overrides: changes of the config, as on the command line, such as "decoding.beam_size=5".

    Raises ConfigError, DataError, RunError, OSError.

    Example:
      >>> import memattn
      >>> translator = memattn.load("runs/small", ["decoding.beam_size=2"])
      >>> len(translator.translate(["3 1 2", "", "7"]))
      3
    """
    from memattn.config import check_overrides
    from memattn.runs import trained

    check_overrides(overrides)
    return from_trained(trained.load([os.fspath(run_dir)], [WITHOUT_XLA, *overrides]), n_best=1)


def load_onnx(
    folder: str | os.PathLike[str],
    *,
    n_best: int | None = 1,
    beam_size: int | None = None,
    batch_size: int | None = None,
    length_penalty: float | None = None,
    threads: int = 0,
    scores: bool = False,
    alignment: Literal["hard", "soft"] | None = None,
) -> Translator:
    """Loads a model in ONNX, ready to `translate` lines without TensorFlow.

    Args:
      folder: folder that `memattn-export --format onnx` wrote.
      n_best: number of translations of each line; None: as exported.
      beam_size: hypotheses of a source; None: as exported.
      batch_size: lines translated at once; None: as exported.
      length_penalty: length penalty; None: as exported.
      threads: number of threads; 0: one for each core.
      scores: whether to write the score before each translation.
      alignment: "hard" writes word alignments after each translation; "soft" writes JSON with the weights of all source
        tokens instead of the line.

    Raises ConfigError, DataError, OSError.
    """
    folder = os.fspath(folder)
    decoding = {"n_best": n_best, "beam_size": beam_size, "batch_size": batch_size, "length_penalty": length_penalty}
    searcher = OnnxSearcher(folder, threads, **{key: value for key, value in decoding.items() if value is not None})
    vocabulary = corpus.read_vocabulary(folder)
    options: dict[str, Any] = {"scores": scores, "alignment": alignment}
    return Translator(searcher, tokenizers.read(folder), vocabulary, searcher.max_source_length, **options)
