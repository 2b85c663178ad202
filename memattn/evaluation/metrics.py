"""Metrics: what a test set's translations are compared by. One entry of METRICS brings a metric everywhere.

That is: into `training.metric` of a config, validation.csv, result.json, the output of memattn-eval, the model card,
and the tables of sweeps. A metric knows nothing of these.
"""

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Iterable
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF

from memattn.data.bpe import escape
from memattn.data.vocabulary import split_words

_LARGEST_EXPONENT = 700.0  # of a floating-point number


class Score(NamedTuple):
    """The value of a metric, and the settings that it was computed with, as sacreBLEU writes them; "" for none."""

    value: float
    signature: str = ""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Hypotheses beside one reference each, at least one. Raises ValueError if their counts differ or are 0.

    Attributes:
      hypotheses, references: words divided by blanks, BPE undone.
      by_characters: whether `bleu` compares characters, as for languages that put no blanks between words.
      language: code of the target language, "" if there is none.
      detokenize: returns a hypothesis as people write it.
      written_references: the references as people write them; None: as `references`.
      target_loss: returns the loss of the model per token of the references, each given the true ones before it.
    """

    hypotheses: list[str]
    references: list[str]
    by_characters: bool = False
    language: str = ""
    detokenize: Callable[[str], str] = str
    written_references: list[str] | None = None
    target_loss: Callable[[], float] | None = None

    def __post_init__(self):
        if len(self.hypotheses) != len(self.references):
            raise ValueError(f"{len(self.hypotheses)} hypotheses for {len(self.references)} references")
        if not self.references:
            raise ValueError("there is no sentence to score")

    @functools.cached_property
    def written(self) -> tuple[list[str], list[str]]:
        """Hypotheses and references as people write them."""
        references = self.references if self.written_references is None else self.written_references
        return list(map(self.detokenize, self.hypotheses)), references

    @functools.cached_property
    def loss(self) -> float:
        """What `target_loss` returns, computed once."""
        return self.target_loss()


def bleu(comparison: Comparison) -> Score:
    """BLEU in percent, case-sensitive and unsmoothed, as Moses' multi-bleu.perl computes it (the paper's protocol)."""
    by_characters = comparison.by_characters
    metric = BLEU(tokenize="char" if by_characters else "none", smooth_method="none", force=True)
    sides = [comparison.hypotheses, comparison.references]
    if not by_characters:  # sacreBLEU would divide words at all white space
        sides = [[escape(" ".join(split_words(line))) for line in side] for side in sides]
    return _by_sacrebleu(metric, *sides)


def sacrebleu(comparison: Comparison) -> Score:
    """BLEU in percent of text as people write it, with sacreBLEU's defaults for the language."""
    return _by_sacrebleu(default_bleu(comparison.language), *comparison.written)


def chrf(comparison: Comparison) -> Score:
    """chrF of Popović (2015) in percent, of text as people write it, with sacreBLEU's defaults."""
    return _by_sacrebleu(CHRF(), *comparison.written)


def exact_match(comparison: Comparison) -> Score:
    """Hypotheses that equal their reference, in percent."""
    equal = sum(map(str.__eq__, comparison.hypotheses, comparison.references))
    return Score(100 * equal / len(comparison.references))


def perplexity(comparison: Comparison) -> Score:
    """Perplexity per token of the references, the end of sentence included, each given the true ones before it."""
    return Score(math.exp(min(comparison.loss, _LARGEST_EXPONENT)))


def loss(comparison: Comparison) -> Score:
    """Cross-entropy per token of the references, the end of sentence included, each given the true ones before it."""
    return Score(comparison.loss)


def _by_sacrebleu(metric: BLEU | CHRF, hypotheses: list[str], references: list[str]) -> Score:
    return Score(metric.corpus_score(hypotheses, [references]).score, str(metric.get_signature()))


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


@dataclasses.dataclass(frozen=True)
class Metric:
    """An entry of METRICS.

    Attributes:
      score: computes it.
      title: heading of its column or line.
      form: its numbers, as in f"{value:{form}}".
      unit: stands after a number, such as "%".
      higher_is_better: whether the best model has the highest value.
      of_text: whether it compares detokenized text, which the made-up tasks do not have.
      at_validation: whether every validation computes it; others only if `training.metric` names them.
      is_shown: whether pages, tables and the output of memattn-eval have it; result.json has all.
    """

    score: Callable[[Comparison], Score]
    title: str
    form: str = ".2f"
    unit: str = ""
    higher_is_better: bool = True
    of_text: bool = False
    at_validation: bool = False
    is_shown: bool = True

    def shown(self, value: float) -> str:
        """The value with its unit."""
        return f"{value:{self.form}}{self.unit}"

    def is_better(self, one: float, other: float) -> bool:
        return one > other if self.higher_is_better else one < other


METRICS = {  # by the names of training.metric, and the keys in result.json
    "bleu": Metric(bleu, "BLEU", at_validation=True),
    "sacrebleu": Metric(sacrebleu, "sacreBLEU", of_text=True),
    "chrf": Metric(chrf, "chrF", of_text=True),
    "exact_match": Metric(exact_match, "exact match", ".1f", "%", at_validation=True),
    "perplexity": Metric(perplexity, "perplexity", ".4g", higher_is_better=False),
    "loss": Metric(loss, "loss", ".4g", higher_is_better=False, is_shown=False),
}


def scores(comparison: Comparison, names: Iterable[str] = ()) -> dict[str, Score]:
    """Scores a comparison by the metrics of these names, or by all."""
    return {name: METRICS[name].score(comparison) for name in (names or METRICS)}


def of_validation(chosen: str) -> list[str]:
    """The names of the metrics that a validation computes where `training.metric` is `chosen`."""
    return [name for name, metric in METRICS.items() if metric.at_validation or name == chosen]
