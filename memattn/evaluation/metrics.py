"""Corpus BLEU by sacreBLEU in two protocols, and the rate of exact matches."""

from typing import NamedTuple

from sacrebleu.metrics import BLEU


class Scores(NamedTuple):
    """Scores of a corpus, in percent.

    Attributes:
      bleu: on tokens, case-sensitive and unsmoothed, as Moses' multi-bleu.perl computes it: the paper's
        protocol.
      bleu_signature: sacreBLEU's signature of `bleu`.
      sacrebleu: sacreBLEU's default, meant for detokenized text.
      sacrebleu_signature: its signature.
      exact_match: hypotheses equal to their reference.
    """

    bleu: float
    bleu_signature: str
    sacrebleu: float
    sacrebleu_signature: str
    exact_match: float


def score(
    hypotheses: list[str], references: list[str], detokenized: tuple[list[str], list[str]] | None = None
) -> Scores:
    """Scores lines of tokens, divided by spaces, against one reference each.

    `detokenized` holds both as people write them; without it, `sacrebleu` is on tokens, too. Raises ValueError if
    counts differ.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    tokenized = BLEU(tokenize="none", smooth_method="none", force=True)
    default = BLEU(force=True)  # silences warnings about lines that look tokenized; changes no score
    written_hypotheses, written_references = detokenized or (hypotheses, references)
    exact = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return Scores(
        tokenized.corpus_score(hypotheses, [references]).score,
        str(tokenized.get_signature()),
        default.corpus_score(written_hypotheses, [written_references]).score,
        str(default.get_signature()),
        100 * exact / len(references),
    )
