"""Corpus BLEU and chrF by sacreBLEU, and the rate of exact matches."""

import functools
import warnings
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF

from memattn.data.bpe import escape
from memattn.data.vocabulary import split_words


class Scores(NamedTuple):
    """Scores of tokens, in percent.

    Attributes:
      bleu: case-sensitive and unsmoothed, on words as Moses' multi-bleu.perl computes it (the paper's protocol), or on
        characters.
      bleu_signature: sacreBLEU's signature of `bleu`.
      exact_match: hypotheses equal to their reference.
    """

    bleu: float
    bleu_signature: str
    exact_match: float


class WrittenScores(NamedTuple):
    """Scores of text as people write it, in percent, with sacreBLEU's signatures.

    Attributes:
      sacrebleu: BLEU with sacreBLEU's defaults for the language.
      chrf: chrF of Popović (2015) with sacreBLEU's defaults.
    """

    sacrebleu: float
    sacrebleu_signature: str
    chrf: float
    chrf_signature: str


def score(hypotheses: list[str], references: list[str], by_characters: bool = False) -> Scores:
    """Scores lines of words, which blanks divide, against one reference each.

    `by_characters` is for languages that put no blanks between words. Raises ValueError if counts differ or are 0.
    """
    _check(hypotheses, references)
    bleu = BLEU(tokenize="char" if by_characters else "none", smooth_method="none", force=True)
    sides = [hypotheses, references]
    if not by_characters:  # sacreBLEU would divide words at all white space
        sides = [[escape(" ".join(split_words(line))) for line in side] for side in sides]
    exact = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return Scores(
        bleu.corpus_score(sides[0], [sides[1]]).score, str(bleu.get_signature()), 100 * exact / len(references)
    )


def score_written(hypotheses: list[str], references: list[str], language: str = "") -> WrittenScores:
    """Scores lines as people write them against one reference each.

    `language` is the target's code, "" if there is none. Raises ValueError if counts differ or are 0.
    """
    _check(hypotheses, references)
    bleu, chrf = default_bleu(language), CHRF()
    scores = []
    for metric in (bleu, chrf):
        scores += [metric.corpus_score(hypotheses, [references]).score, str(metric.get_signature())]
    return WrittenScores(*scores)


@functools.cache
def default_bleu(language: str) -> BLEU:
    """BLEU as `sacrebleu -l SOURCE-LANGUAGE` computes it; on characters, with a warning, where a package is missing."""
    silent = {"force": True}  # no warnings about lines that look tokenized; changes no score
    try:
        return BLEU(trg_lang=language, **silent)
    except RuntimeError:
        warnings.warn(
            f"sacreBLEU's tokenizer of {language!r} is missing (extra `cjk`: pip install 'sacrebleu[ja,ko]'); "
            "its BLEU is on characters instead",
            stacklevel=3,
        )
        return BLEU(tokenize="char", **silent)


def _check(hypotheses: list[str], references: list[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    if not references:
        raise ValueError("there is no sentence to score")
