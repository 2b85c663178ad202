"""Translates lines of text with a trained model."""

import dataclasses
import json
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from memattn.data import corpus
from memattn.data import tokenizer as tokenizers
from memattn.data.batches import streaming_batches
from memattn.data.sentences import Sentences
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import UNK, Vocabulary
from memattn.errors import ConfigError, DataError, listed
from memattn.search import long_lines
from memattn.search.translation import Translation, translation
from memattn.serving.attention_output import Part, as_json, word_alignment
from memattn.serving.streaming import STDIN, in_order, too_long

if TYPE_CHECKING:  # the functions below import TensorFlow when they are called; `Translator` does not need it
    from memattn.onnx_runtime.searcher import OnnxSearcher
    from memattn.runs.trained import Trained
    from memattn.search.searcher import Searcher


class Translator:
    """Turns lines of text into lines of output.

    Args:
      searcher: searches with the model.
      tokenizer: tokenizer of the model.
      vocabulary: vocabulary of the model.
      max_source_length: most tokens of a line; `decoding.long_lines` of the searcher's config says what happens to a
        longer line.
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
        *,
        max_source_length: int,
        scores: bool = False,
        alignment: Literal["hard", "soft"] | None = None,
    ):
        if alignment and not searcher.has_alignments:
            raise ConfigError("--alignment: a model without attention has no alignments")
        self._searcher, self._tokenizer, self._vocabulary = searcher, tokenizer, vocabulary
        self._scores, self._alignment = scores, alignment
        self._most_tokens, self._long_lines = max_source_length, searcher.config.long_lines
        self._has_warned_of_unknown = self._has_warned_of_failure = False
        self.batch_size = searcher.config.batch_size

    def translate(self, lines: list[str]) -> list[str]:
        """Returns the best translation of each line. Raises DataError, also for anything but a list of strings."""
        is_list = isinstance(lines, (list, tuple))
        wrong = [line for line in lines if not isinstance(line, str)] if is_list else [lines]
        if wrong:
            raise DataError(f"lines: must be a list of strings, not {wrong[0]!r:.80} of type {type(wrong[0]).__name__}")
        return list(self(lines, 1, "lines"))

    def __call__(self, lines: list[str], first: int, name: str = STDIN) -> Iterator[str]:
        """Yields the output lines of source lines, each as soon as it is ready.

        Warns about a line that is split or cut, about the first line with tokens that the vocabulary lacks, and about
        the first for which the model's outputs are not finite. Raises DataError for a line that is refused, after the
        output of the lines before it.

        Args:
          lines: the source lines.
          first: number of the first line.
          name: name of the input, for messages.
        """
        tokens, error = [self._tokenizer.encode(line, "source") for line in lines], None
        for place, line in enumerate(tokens):
            if len(line) > self._most_tokens and self._long_lines == "refuse":
                error = DataError(too_long(name, first + place, line, self._most_tokens))
                tokens = tokens[:place]
                break
        pieces = [self._pieces(line, name, number) for number, line in enumerate(tokens, first)]
        if not self._has_warned_of_unknown:
            self._warn_of_unknown(pieces, first, name)
        yield from self._output(pieces, first, name)
        if error:
            raise error

    def _warn_of_unknown(self, pieces: list[list[list[str]]], first: int, name: str) -> None:
        """Warns about the first line, given by its pieces, with tokens that the vocabulary lacks."""
        ids = self._vocabulary.ids
        for number, line_pieces in enumerate(pieces, first):
            if unknown := [token for piece in line_pieces for token in piece if ids.get(token, UNK) == UNK]:
                self._has_warned_of_unknown = True
                what = f"{len(unknown):,} of {sum(map(len, line_pieces)):,} tokens are not in the vocabulary"
                more = "(further lines like this are not named)"
                warnings.warn(f"{name}:{number}: {what}: {listed(dict.fromkeys(unknown))} {more}", stacklevel=3)
                return

    def _pieces(self, tokens: list[str], name: str, number: int) -> list[list[str]]:
        """Returns the pieces of a line that are translated one by one."""
        if len(tokens) <= self._most_tokens:
            return [tokens]
        if self._long_lines == "cut":
            pieces, action = [tokens[: self._most_tokens]], "the rest is dropped"
        else:
            pieces = long_lines.pieces(tokens, self._tokenizer.word_numbers(tokens), self._most_tokens)
            action = f"it is translated in {len(pieces):,} pieces"
        warnings.warn(f"{too_long(name, number, tokens, self._most_tokens)}; {action}", stacklevel=2)
        return pieces

    def _output(self, pieces: list[list[list[str]]], first: int, name: str) -> Iterator[str]:
        """Yields the output lines for the pieces of each line."""
        places = [(line, piece) for line, parts in enumerate(pieces) for piece in range(len(parts))]
        results = self._search([pieces[line][piece] for line, piece in places], places, first)
        hypotheses = in_order(results, len(places))
        for number, line_pieces in enumerate(pieces, first):
            ranked_by_piece = [next(hypotheses) for _ in line_pieces]
            # The i-th best translation of a line consists of the i-th best of each piece.
            for translated in zip(*ranked_by_piece, strict=False):
                parts, scores = zip(*translated, strict=True)
                if not math.isfinite(sum(scores)) and not self._has_warned_of_failure:
                    self._has_warned_of_failure = True
                    what = "the model's outputs are not finite, so that the translation is empty or lacks a piece"
                    warnings.warn(f"{name}:{number}: {what} (further lines like this are not named)", stacklevel=3)
                yield self._output_line(number, list(parts), sum(scores))

    def _search(
        self, sources: list[list[str]], places: list[tuple[int, int]], first: int
    ) -> Iterator[tuple[int, list[tuple[Part, float]]]]:
        """Yields, for each source, its index and its ranked hypotheses with their scores; short sources come first.

        Every source has at least one hypothesis; that of an empty source is empty. Samples depend on a source's line
        and piece (`places`).
        """
        sentences = Sentences.from_ids([self._vocabulary.encode(source) for source in sources])
        numbers = np.array([first + line + (piece << 32) for line, piece in places], np.int64)
        for members, ids in streaming_batches(sentences, batch_size=self.batch_size):
            hypotheses = self._searcher(ids, numbers[members])
            results: list[tuple[int, list[str], float]] = []
            for row, index in enumerate(members):
                best = translation(hypotheses, row, self._vocabulary) if sources[index] else Translation([[]], [0.0])
                ranked = list(zip(best.hypotheses, best.scores, strict=True)) or [([], -math.inf)]
                results += [(index, target, score) for target, score in ranked]
            weights = self._weights([(sources[index], target) for index, target, _ in results])
            parts: dict[int, list[tuple[Part, float]]] = {index: [] for index in members}
            for (index, target, score), matrix in zip(results, weights, strict=True):
                parts[index].append((Part(sources[index], target, matrix), score))
            yield from parts.items()

    def _weights(self, pairs: list[tuple[list[str], list[str]]]) -> list[np.ndarray]:
        """Returns attention weights [T, S] of pairs, without the ends of sentence; empty ones where none are needed."""
        if not self._alignment:
            return [np.zeros([0, 0])] * len(pairs)
        weights = [np.zeros([len(target), len(source)]) for source, target in pairs]
        encode = self._vocabulary.encode
        sources = Sentences.from_ids([encode(source) for source, _ in pairs])
        targets = Sentences.from_ids([encode(target) for _, target in pairs])
        for members, source, target in streaming_batches(sources, targets, batch_size=self.batch_size):
            for index, matrix in zip(members, self._searcher.align(source, target), strict=False):
                weights[index] = matrix[: weights[index].shape[0], : weights[index].shape[1]]
        return weights

    def _output_line(self, number: int, parts: list[Part], score: float) -> str:
        """Returns the output of line `number` for the parts of one translation."""
        words = filter(None, (self._tokenizer.decode(part.target) for part in parts))
        text = self._tokenizer.detokenize(" ".join(words))
        if self._alignment == "soft":
            line = {"line": number, "text": text, "score": round(score, 6) if math.isfinite(score) else None}
            line |= as_json(parts[0]) if len(parts) == 1 else {"pieces": [as_json(part) for part in parts]}
            return json.dumps(line, ensure_ascii=False)
        fields = [str(number)] if self._searcher.config.n_best > 1 else []
        if self._scores:
            fields.append(f"{score:.6f}")
        fields.append(text)
        if self._alignment == "hard":
            fields.append(word_alignment(parts, self._tokenizer.word_numbers))
        return "\t".join(fields)


def from_trained(trained: "Trained", *, n_best: int | None = None, **options: Any) -> Translator:
    """Makes a translator with a trained model; `options` are arguments of `Translator`. Raises ConfigError."""
    from memattn.search.searcher import Searcher

    trained.check_reads_text("translation")
    config = trained.config.decoding
    if n_best and n_best > config.beam_size and not config.sample:
        raise ConfigError(f"--nbest: {n_best} is more than decoding.beam_size = {config.beam_size}")
    config = dataclasses.replace(config, n_best=n_best or config.n_best)
    searcher = Searcher(trained.model, config, trained.lexicon)
    most = trained.max_source_length
    return Translator(searcher, trained.tokenizer, trained.vocabulary, max_source_length=most, **options)


def load(run_dir: str, overrides: Sequence[str] = ()) -> Translator:
    """Loads the model of a run folder, ready to `translate` lines.

    Args:
      run_dir: the run folder.
      overrides: changes of the config, as on the command line, such as "decoding.beam_size=5".

    Raises ConfigError, DataError, RunError, OSError.
    """
    from memattn.config import check_overrides
    from memattn.runs import trained

    check_overrides(overrides)
    return from_trained(trained.load([run_dir], ["decoding.jit_compile=false", *overrides], None), n_best=1)


def load_onnx(
    folder: str,
    *,
    n_best: int = 1,
    scores: bool = False,
    alignment: Literal["hard", "soft"] | None = None,
    threads: int = 0,
    **changes: Any,
) -> Translator:
    """Loads a model in ONNX, ready to `translate` lines without TensorFlow.

    Args:
      folder: folder that `memattn-export --format onnx` wrote.
      n_best: number of translations of each line.
      scores: whether to write the score before each translation.
      alignment: alignments to write, as `Translator` takes them.
      threads: number of threads; 0: one for each core.
      **changes: `beam_size`, `batch_size` or `length_penalty`, if other than when the model was exported.

    Raises ConfigError, DataError, OSError.
    """
    try:
        from memattn.onnx_runtime.searcher import OnnxSearcher
    except ImportError as error:
        raise ConfigError(f"{folder}: needs the package {error.name}; pip install {error.name}") from error

    searcher = OnnxSearcher(folder, threads, n_best=n_best, **changes)
    config, most = searcher.config, searcher.max_source_length
    if n_best > config.beam_size:
        raise ConfigError(f"--nbest: {n_best} is more than the beam size, {config.beam_size}")
    vocabulary = corpus.read_vocabulary(os.path.join(folder, corpus.VOCABULARY))
    tokenizer = tokenizers.read(folder)
    return Translator(searcher, tokenizer, vocabulary, max_source_length=most, scores=scores, alignment=alignment)
