"""Metrics: functions that compare hypotheses with references.

To add a metric, write a function from `Comparison` to `Score` and enter it in METRICS. `training.metric` of a config,
validation.csv, result.json, memattn-eval, the model card and the tables of sweeps then have it, too.
"""

import dataclasses
import functools
import importlib.metadata
import importlib.util
import math
import statistics
import warnings
from collections.abc import Callable, Iterable, Set
from typing import Any, NamedTuple

from sacrebleu.metrics import BLEU, CHRF

from memattn.data.tokenizer import CHINESE, known_code
from memattn.data.trees import are_trees, spans
from memattn.data.units import escape
from memattn.data.vocabulary import split_words
from memattn.errors import ConfigError, DataError, abbreviated

_LARGEST_LOSS = 1e14  # written in place of an infinite loss or perplexity


class Score(NamedTuple):
    """A metric's value."""

    value: float
    signature: str = ""  # the settings of its computation, as sacreBLEU writes them, or the counts behind it


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Hypotheses with one reference each, at least one of both: words divided by spaces, BPE undone."""

    hypotheses: list[str]
    references: list[str]
    by_characters: bool = False  # whether `bleu` compares characters, as for languages without spaces between words
    language: str = ""  # code of the target language
    detokenize: Callable[[list[str]], list[str]] = list  # turns hypotheses into ordinary text
    detokenized_references: list[str] | None = None  # ordinary text; None if `references` are
    # computes the model's loss per reference token under teacher forcing
    target_loss: Callable[[], float] = lambda: math.nan

    @functools.cached_property
    def detokenized(self) -> tuple[list[str], list[str]]:
        """Hypotheses and references as ordinary text."""
        references = self.references if self.detokenized_references is None else self.detokenized_references
        return self.detokenize(self.hypotheses), references

    @functools.cached_property
    def brackets(self) -> dict[str, Score]:
        """F1, precision and recall of labelled brackets as EVALB counts them, and malformed trees, all in percent.

        A hypothesis is malformed, and counts as a tree without brackets, if its brackets do not match, or if it has
        another number of words than its reference. Punctuation is no word. Raises DataError if a reference is no tree.
        """
        matched = in_hypotheses = in_references = malformed = 0
        for hypothesis, reference in zip(map(spans, self.hypotheses), self.references, strict=True):
            tree = spans(reference)
            if tree is None:
                raise DataError(f"the reference {abbreviated(reference)} is no tree; see memattn-prepare parsing")
            in_references += tree.brackets.total()
            if hypothesis and hypothesis.words == tree.words:
                in_hypotheses += hypothesis.brackets.total()
                matched += (hypothesis.brackets & tree.brackets).total()
            else:
                malformed += 1
        return {
            "f1": _percent(2 * matched, in_hypotheses + in_references),
            "precision": _percent(matched, in_hypotheses),
            "recall": _percent(matched, in_references),
            "malformed": _percent(malformed, len(self.references)),
        }

    @functools.cached_property
    def rouge(self) -> dict[str, Score]:
        """ROUGE-1, ROUGE-2 and ROUGE-L (Lin, 2004) of detokenized text: F1 in percent, the mean over sentences."""
        from rouge_score import rouge_scorer  # of the extra `rouge`

        names = ["rouge1", "rouge2", "rougeL"]
        scorer = rouge_scorer.RougeScorer(names, use_stemmer=True)
        sentences = [
            scorer.score(reference, hypothesis) for hypothesis, reference in zip(*self.detokenized, strict=True)
        ]
        signature = f"stemmed|rouge-score:{importlib.metadata.version('rouge-score')}"
        means = {name: statistics.fmean(sentence[name].fmeasure for sentence in sentences) for name in names}
        return {name: Score(100 * mean, signature) for name, mean in means.items()}

    @functools.cached_property
    def loss(self) -> float:
        """The model's loss per reference token, computed once."""
        return self.target_loss()


def bleu(comparison: Comparison) -> Score:
    """Returns BLEU in percent, case-sensitive and unsmoothed, as Moses' multi-bleu.perl does (the paper's protocol)."""
    by_characters = comparison.by_characters
    metric = BLEU(tokenize="char" if by_characters else "none", smooth_method="none", force=True)
    hypotheses, references = comparison.hypotheses, comparison.references
    if not by_characters:  # sacreBLEU would divide words at all white space, such as a no-break space
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
    """Returns the fraction of hypotheses that equal their reference, in percent."""
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
    alignment = jiwer.process_characters(references, hypotheses)
    return Score(100 * alignment.cer, _errors(alignment, "characters"))


def wer(comparison: Comparison) -> Score:
    """Returns the word error rate in percent, of detokenized text, and the counts of errors."""
    import jiwer  # of the extra `speech`

    hypotheses, references = comparison.detokenized
    alignment = jiwer.process_words(references, hypotheses)
    return Score(100 * alignment.wer, _errors(alignment, "words"))


def _errors(alignment: Any, unit: str) -> str:
    """Returns the counts of errors in jiwer's alignment, and the length of the references, as text."""
    counts = [f"{getattr(alignment, name):,} {name}" for name in ("substitutions", "insertions", "deletions")]
    length = alignment.hits + alignment.substitutions + alignment.deletions
    return f"{', '.join(counts)} in {length:,} {unit}"


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
    """An entry of METRICS."""

    score: Callable[[Comparison], Score]
    title: str  # heading of a column or line
    form: str = ".2f"  # format of a number, as in f"{value:{form}}"
    unit: str = ""  # stands after a number, such as "%"
    higher_is_better: bool = True
    # what the metric is for: "any" targets, "trees", "text" (all other targets), "transcripts" or "summaries". The last
    # two are text, too; an evaluation computes their metrics if it is asked to
    kind: str = "any"

    def with_unit(self, value: float) -> str:
        """Returns the value as text, with its unit."""
        return f"{value:{self.form}}{self.unit}"

    def is_better(self, value: float, than: float) -> bool:
        return value > than if self.higher_is_better else value < than


def _one_of(scores: str, name: str) -> Callable[[Comparison], Score]:
    """Returns a function for one of the scores that an attribute of a comparison holds."""
    return lambda comparison: getattr(comparison, scores)[name]


METRICS = {  # by their names in training.metric and result.json
    "bleu": Metric(bleu, "BLEU"),
    "sacrebleu": Metric(sacrebleu, "sacreBLEU", kind="text"),
    "chrf": Metric(chrf, "chrF", kind="text"),
    "exact_match": Metric(exact_match, "exact match", ".1f", "%"),
    "cer": Metric(cer, "CER", unit="%", higher_is_better=False, kind="transcripts"),
    "wer": Metric(wer, "WER", unit="%", higher_is_better=False, kind="transcripts"),
    "rouge1": Metric(_one_of("rouge", "rouge1"), "ROUGE-1", kind="summaries"),
    "rouge2": Metric(_one_of("rouge", "rouge2"), "ROUGE-2", kind="summaries"),
    "rougeL": Metric(_one_of("rouge", "rougeL"), "ROUGE-L", kind="summaries"),
    "bracketing_f1": Metric(_one_of("brackets", "f1"), "bracket F1", unit="%", kind="trees"),
    "bracketing_precision": Metric(_one_of("brackets", "precision"), "bracket precision", unit="%", kind="trees"),
    "bracketing_recall": Metric(_one_of("brackets", "recall"), "bracket recall", unit="%", kind="trees"),
    "malformed_trees": Metric(
        _one_of("brackets", "malformed"), "malformed trees", unit="%", higher_is_better=False, kind="trees"
    ),
    "perplexity": Metric(perplexity, "perplexity", ".4g", higher_is_better=False),
    "loss": Metric(loss, "loss", ".4g", higher_is_better=False),
}
# The metrics that model cards, tables and memattn-eval show. Perplexity says what the loss says; result.json has both.
REPORTED = {name: metric for name, metric in METRICS.items() if name != "loss"}
_PACKAGES = {"transcripts": ("jiwer", "speech"), "summaries": ("rouge_score", "rouge")}  # package and extra, by kind


def scores(comparison: Comparison, names: Iterable[str]) -> dict[str, Score]:
    """Returns the scores of the metrics with these names."""
    return {name: METRICS[name].score(comparison) for name in names}


def evaluation_metrics(references: Iterable[str], kinds: Set[str] = frozenset()) -> list[str]:
    """Returns the names of the metrics that an evaluation computes: all for such references, and all of `kinds`."""
    computed = {"any", "trees" if are_trees(references) else "text", *kinds}
    return [name for name, metric in METRICS.items() if metric.kind in computed]


def validation_metrics(training_metric: str) -> list[str]:
    """Returns the names of the metrics that a validation computes, given the value of `training.metric`."""
    return [name for name in METRICS if name in ("bleu", "exact_match", training_metric)]


def check_installed(kinds: Set[str]) -> None:
    """Raises ConfigError if metrics of these kinds need a package that is not installed."""
    for kind in kinds & _PACKAGES.keys():
        package, extra = _PACKAGES[kind]
        if not importlib.util.find_spec(package):
            problem = f"metrics of {kind} need {package}, of the extra `{extra}`"
            raise ConfigError(f"{problem}: pip install -e '.[{extra}]' in the clone")
