"""Metrics: functions that compare hypotheses with references.

To add a metric, write a function from `Comparison` to `Score` and enter it in METRICS. `training.metric` of a config,
validation.csv, result.json, memattn-eval, the model card and the tables of sweeps then have it, too.
"""

import dataclasses
import functools
import importlib.util
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from sacrebleu.metrics import BLEU, CHRF

from memattn.data.bpe import escape
from memattn.data.languages import CHINESE, known_code
from memattn.data.tokenizer import Tokenizer, without_line_breaks
from memattn.data.trees import are_trees, spans
from memattn.data.vocabulary import split_words
from memattn.errors import ConfigError, DataError, abbreviated

_LARGEST_LOSS = 1e14  # written in place of an infinite loss or perplexity


class Score(NamedTuple):
    """A metric's value.

    Attributes:
      value: the number.
      signature: settings that it was computed with, as sacreBLEU writes them, or the counts behind it; "" for none.
    """

    value: float
    signature: str = ""


class Bracketing(NamedTuple):
    """Labelled brackets of a corpus of trees, counted as EVALB does; punctuation is no word.

    A hypothesis is malformed, and counts as a tree without brackets, if its brackets do not match, or if it has another
    number of words than its reference.

    Attributes:
      matched: number of brackets that a hypothesis and its reference share.
      hypotheses: number of brackets of the hypotheses that are not malformed.
      references: number of brackets of the references.
      malformed: number of malformed hypotheses.
    """

    matched: int
    hypotheses: int
    references: int
    malformed: int


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Hypotheses with one reference each. Raises ValueError if their numbers differ, or if there are none.

    Attributes:
      hypotheses, references: words divided by spaces, BPE undone.
      by_characters: whether `bleu` compares characters, as for languages without spaces between words.
      language: code of the target language, "" if there is none.
      detokenize: turns a hypothesis into ordinary text.
      detokenized_references: the references as ordinary text; None if `references` are.
      target_loss: computes the model's loss per reference token under teacher forcing; None if there is no model.
      is_transcript: whether the targets are transcripts of the sources, as in speech recognition.
    """

    hypotheses: list[str]
    references: list[str]
    by_characters: bool = False
    language: str = ""
    detokenize: Callable[[str], str] = str
    detokenized_references: list[str] | None = None
    target_loss: Callable[[], float] | None = None
    is_transcript: bool = False

    @classmethod
    def for_tokenizer(cls, tokenizer: Tokenizer, **fields: Any) -> "Comparison":
        """Returns a comparison whose language and detokenization are those of a tokenizer; `fields` are all others."""
        return cls(
            by_characters=tokenizer.by_characters,
            language=tokenizer.target_language,
            detokenize=lambda hypothesis: without_line_breaks(tokenizer.detokenize(hypothesis)),
            **fields,
        )

    def __post_init__(self):
        if len(self.hypotheses) != len(self.references):
            raise ValueError(f"{len(self.hypotheses)} hypotheses for {len(self.references)} references")
        if not self.references:
            raise ValueError("there is no sentence to score")

    @functools.cached_property
    def detokenized(self) -> tuple[list[str], list[str]]:
        """Hypotheses and references as ordinary text."""
        references = self.references if self.detokenized_references is None else self.detokenized_references
        return list(map(self.detokenize, self.hypotheses)), references

    @functools.cached_property
    def has_trees(self) -> bool:
        """Whether all references are trees, as `memattn-prepare parsing` writes them."""
        return are_trees(self.references)

    @functools.cached_property
    def bracketing(self) -> Bracketing:
        """Counts of labelled brackets. Raises DataError if a reference is no tree."""
        matched = hypotheses = references = malformed = 0
        for hypothesis, reference in zip(map(spans, self.hypotheses), self.references, strict=True):
            tree = spans(reference)
            if tree is None:
                raise DataError(f"the reference {abbreviated(reference)} is no tree; see memattn-prepare parsing")
            references += tree.brackets.total()
            if hypothesis and hypothesis.words == tree.words:
                hypotheses += hypothesis.brackets.total()
                matched += (hypothesis.brackets & tree.brackets).total()
            else:
                malformed += 1
        return Bracketing(matched, hypotheses, references, malformed)

    @functools.cached_property
    def loss(self) -> float:
        """The model's loss per reference token, computed once. Raises ValueError without `target_loss`."""
        if self.target_loss is None:
            raise ValueError("there is no model whose loss could be computed")
        return self.target_loss()


def bleu(comparison: Comparison) -> Score:
    """Returns BLEU in percent, case-sensitive and unsmoothed, as Moses' multi-bleu.perl does (the paper's protocol)."""
    by_characters = comparison.by_characters
    metric = BLEU(tokenize="char" if by_characters else "none", smooth_method="none", force=True)
    hypotheses, references = comparison.hypotheses, comparison.references
    if not by_characters:  # sacreBLEU would divide words at all white space
        hypotheses, references = (
            [escape(" ".join(split_words(line))) for line in lines] for lines in (hypotheses, references)
        )
    return _by_sacrebleu(metric, hypotheses, references)


def sacrebleu(comparison: Comparison) -> Score:
    """Returns BLEU in percent of detokenized text, with sacreBLEU's defaults for the language."""
    return _by_sacrebleu(default_bleu(comparison.language), *comparison.detokenized)


def chrf(comparison: Comparison) -> Score:
    """Returns chrF (Popović, 2015) in percent, of detokenized text, with sacreBLEU's defaults."""
    return _by_sacrebleu(CHRF(), *comparison.detokenized)


def exact_match(comparison: Comparison) -> Score:
    """Returns the share of hypotheses that equal their reference, in percent."""
    equal = sum(map(str.__eq__, comparison.hypotheses, comparison.references))
    return Score(100 * equal / len(comparison.references))


def perplexity(comparison: Comparison) -> Score:
    """Returns the teacher-forced perplexity per reference token, ends of sentences included."""
    return Score(math.exp(min(comparison.loss, math.log(_LARGEST_LOSS))))


def loss(comparison: Comparison) -> Score:
    """Returns the teacher-forced cross-entropy per reference token, ends of sentences included."""
    return Score(min(comparison.loss, _LARGEST_LOSS))


def cer(comparison: Comparison) -> Score:
    """Returns the character error rate in percent, of detokenized text, and the counts of errors."""
    import jiwer  # of the extra `speech`

    hypotheses, references = comparison.detokenized
    return _error_rate(jiwer.process_characters(references, hypotheses), "characters")


def wer(comparison: Comparison) -> Score:
    """Returns the word error rate in percent, of detokenized text, and the counts of errors."""
    import jiwer  # of the extra `speech`

    hypotheses, references = comparison.detokenized
    return _error_rate(jiwer.process_words(references, hypotheses), "words")


def _error_rate(alignment: Any, unit: str) -> Score:
    """Returns the error rate of jiwer's alignment; if all references are empty, 100 times the number of insertions."""
    length = alignment.hits + alignment.substitutions + alignment.deletions
    errors = {name: getattr(alignment, name) for name in ("substitutions", "insertions", "deletions")}
    counts = ", ".join(f"{count:,} {name}" for name, count in errors.items())
    return Score(100 * sum(errors.values()) / max(1, length), f"{counts} in {length:,} {unit}")


def bracketing_f1(comparison: Comparison) -> Score:
    """Returns the harmonic mean of precision and recall of labelled brackets, in percent."""
    counts = comparison.bracketing
    return _percent(2 * counts.matched, counts.hypotheses + counts.references)


def bracketing_precision(comparison: Comparison) -> Score:
    """Returns the share of the hypotheses' labelled brackets that their references have, in percent."""
    counts = comparison.bracketing
    return _percent(counts.matched, counts.hypotheses)


def bracketing_recall(comparison: Comparison) -> Score:
    """Returns the share of the references' labelled brackets that the hypotheses have, in percent."""
    counts = comparison.bracketing
    return _percent(counts.matched, counts.references)


def malformed_trees(comparison: Comparison) -> Score:
    """Returns the share of malformed hypotheses, in percent."""
    return _percent(comparison.bracketing.malformed, len(comparison.hypotheses))


def _percent(part: int, whole: int) -> Score:
    return Score(100 * part / max(1, whole))


def _by_sacrebleu(metric: BLEU | CHRF, hypotheses: list[str], references: list[str]) -> Score:
    return Score(metric.corpus_score(hypotheses, [references]).score, str(metric.get_signature()))


@functools.cache
def default_bleu(language: str) -> BLEU:
    """Returns the BLEU that `sacrebleu -l SOURCE-LANGUAGE` computes for a target language, whatever its code.

    Cantonese and other languages of China have the tokenizer of `zh`. If sacreBLEU's tokenizer of the language is not
    installed, warns, and returns BLEU on characters.
    """
    code = known_code(language)
    try:  # force: no warnings about lines that look tokenized
        return BLEU(trg_lang="zh" if code in CHINESE else code, force=True)
    except RuntimeError:
        warnings.warn(
            f"sacreBLEU's tokenizer of {language!r} is missing (extra `cjk`: pip install 'sacrebleu[ja,ko]'); "
            "its BLEU is on characters instead",
            stacklevel=3,
        )
        return BLEU(tokenize="char", force=True)


@dataclasses.dataclass(frozen=True)
class Metric:
    """An entry of METRICS.

    Attributes:
      score: computes the metric.
      title: heading of a column or line.
      form: format of a number, as in f"{value:{form}}".
      unit: stands after a number, such as "%".
      higher_is_better: whether the best model has the highest value.
      needs_detokenized: whether the metric compares detokenized text, and so is neither shown for generated tasks nor
        computed for trees.
      needs_trees: whether the metric compares trees.
      at_validation: whether every validation computes the metric, even if `training.metric` names another.
      is_reported: whether model cards, tables and memattn-eval show the metric; result.json has all.
      is_error_rate: whether the metric, by jiwer, compares transcripts; it is computed for transcripts alone.
    """

    score: Callable[[Comparison], Score]
    title: str
    form: str = ".2f"
    unit: str = ""
    higher_is_better: bool = True
    needs_detokenized: bool = False
    needs_trees: bool = False
    at_validation: bool = False
    is_reported: bool = True
    is_error_rate: bool = False

    def with_unit(self, value: float) -> str:
        """Returns the value as text, with its unit."""
        return f"{value:{self.form}}{self.unit}"

    def suits(self, comparison: Comparison) -> bool:
        """Returns whether a comparison is of the kind that the metric is for."""
        if self.is_error_rate:
            return comparison.is_transcript
        return not self.needs_detokenized if comparison.has_trees else not self.needs_trees

    @property
    def is_special(self) -> bool:
        """Whether the metric suits only some tasks."""
        return self.needs_trees or self.is_error_rate

    def is_better(self, value: float, than: float) -> bool:
        """Returns whether a value is better than another."""
        return value > than if self.higher_is_better else value < than


METRICS = {  # by their names in training.metric and result.json
    "bleu": Metric(bleu, "BLEU", at_validation=True),
    "sacrebleu": Metric(sacrebleu, "sacreBLEU", needs_detokenized=True),
    "chrf": Metric(chrf, "chrF", needs_detokenized=True),
    "exact_match": Metric(exact_match, "exact match", ".1f", "%", at_validation=True),
    "cer": Metric(cer, "CER", ".2f", "%", higher_is_better=False, needs_detokenized=True, is_error_rate=True),
    "wer": Metric(wer, "WER", ".2f", "%", higher_is_better=False, needs_detokenized=True, is_error_rate=True),
    "bracketing_f1": Metric(bracketing_f1, "bracket F1", unit="%", needs_trees=True),
    "bracketing_precision": Metric(bracketing_precision, "bracket precision", unit="%", needs_trees=True),
    "bracketing_recall": Metric(bracketing_recall, "bracket recall", unit="%", needs_trees=True),
    "malformed_trees": Metric(malformed_trees, "malformed trees", unit="%", higher_is_better=False, needs_trees=True),
    "perplexity": Metric(perplexity, "perplexity", ".4g", higher_is_better=False),
    "loss": Metric(loss, "loss", ".4g", higher_is_better=False, is_reported=False),
}


def scores(comparison: Comparison, names: Iterable[str] = ()) -> dict[str, Score]:
    """Returns scores by the names of metrics: of the given ones, by default of all that suit the comparison."""
    chosen = names or [name for name, metric in METRICS.items() if metric.suits(comparison)]
    return {name: METRICS[name].score(comparison) for name in chosen}


def check_installed(names: Iterable[str]) -> None:
    """Raises ConfigError if one of these metrics needs a package that is not installed."""
    missing = [name for name in names if METRICS[name].is_error_rate] if not importlib.util.find_spec("jiwer") else []
    if missing:
        raise ConfigError(f"{missing[0]}: needs jiwer, of the extra `speech`: pip install -e '.[speech]' in the clone")


def validation_metrics(training_metric: str) -> list[str]:
    """Returns the names of the metrics that a validation computes, given the value of `training.metric`."""
    return [name for name, metric in METRICS.items() if metric.at_validation or name == training_metric]
