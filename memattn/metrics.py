"""Corpus BLEU by sacreBLEU in two protocols, and the rate of exact matches."""

from typing import NamedTuple

from sacrebleu.metrics import BLEU


class Scores(NamedTuple):
    """Scores of a corpus, in percent.

    Attributes:
      bleu: on the tokens as they stand, case-sensitive and unsmoothed, as Moses' multi-bleu.perl computes it: the
        paper's protocol.
      bleu_signature: sacreBLEU's signature of `bleu`.
      sacrebleu: sacreBLEU's default, meant for detokenized text; the lines are scored as they are given.
      sacrebleu_signature: its signature.
      exact_match: hypotheses equal to their reference.
    """

    bleu: float
    bleu_signature: str
    sacrebleu: float
    sacrebleu_signature: str
    exact_match: float


def score(hypotheses: list[str], references: list[str]) -> Scores:
    """Scores lines of tokens, divided by spaces, against one reference each. Raises ValueError if counts differ."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    tokenized = BLEU(tokenize="none", smooth_method="none", force=True)
    detokenized = BLEU()
    exact = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return Scores(
        tokenized.corpus_score(hypotheses, [references]).score,
        str(tokenized.get_signature()),
        detokenized.corpus_score(hypotheses, [references]).score,
        str(detokenized.get_signature()),
        100 * exact / len(references),
    )
