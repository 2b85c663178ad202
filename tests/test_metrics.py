"""BLEU against a computation from its definition and against sacreBLEU's command line; exact matches."""

import collections
import math
import random
import subprocess
import sys

import pytest

from memattn.evaluation.metrics import score


def ngrams(words, order):
    return collections.Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))


def multi_bleu(hypotheses, references):
    """BLEU of Papineni et al. (2002) with one reference, orders 1 to 4 and no smoothing, as multi-bleu.perl has it."""
    matches, totals = [0] * 4, [0] * 4
    hypothesis_length = reference_length = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        words, wanted = hypothesis.split(), reference.split()
        hypothesis_length += len(words)
        reference_length += len(wanted)
        for order in range(1, 5):
            allowed = ngrams(wanted, order)
            for ngram, count in ngrams(words, order).items():
                matches[order - 1] += min(count, allowed[ngram])
                totals[order - 1] += count
    if 0 in matches:
        return 0.0
    precision = math.exp(sum(math.log(match / total) for match, total in zip(matches, totals, strict=True)) / 4)
    brevity = min(1.0, math.exp(1 - reference_length / hypothesis_length))
    return 100 * brevity * precision


def noisy_copies(lines=60):
    """Copies with words left out, repeated and replaced, as a half-trained model makes them."""
    draw = random.Random(4)
    references = [" ".join(str(draw.randrange(9)) for _ in range(draw.randrange(16))) for _ in range(lines)]
    hypotheses = []
    for reference in references:
        words = []
        for word in reference.split():
            words += draw.choices([[word], [], [word, word], ["x"]], [85, 6, 4, 5])[0]
        hypotheses.append(" ".join(words))
    return hypotheses, references


# name -> hypotheses, references, BLEU worked out by hand where it is easy
CORPORA = {
    "perfect": (["a b c d", "e f g h i"], ["a b c d", "e f g h i"], 100.0),
    "perfect with empty lines": (["", "a b c d e", ""], ["", "a b c d e", ""], 100.0),
    "hypothesis missing": (["a b c d e", ""], ["a b c d e", "f g h"], 100 * math.exp(1 - 8 / 5)),
    "reference missing": (["a b c d e", "f g h"], ["a b c d e", ""], 100 * (5 / 8 * 4 / 6 * 3 / 4) ** (1 / 4)),
    "repeated words": (
        ["the the the the the cat sat on the mat"],
        ["the cat sat on the mat"],
        100 * (6 / 10 * 5 / 9 * 4 / 8 * 3 / 7) ** (1 / 4),
    ),
    "brevity": (["a b c d e f"], ["a b c d e f g h"], 100 * math.exp(1 - 8 / 6)),
    "longer is not penalised by length": (["a b c d x"], ["a b c d"], 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)),
    "no common 4-gram": (["a b c x d e f"], ["a b c d e f g"], 0.0),
    "too short for a 4-gram": (["a b c", "d"], ["a b c", "d"], 0.0),
    "nothing said": (["", ""], ["a b c d", "e"], 0.0),
    "nothing wanted": (["a", "b"], ["", ""], 0.0),
    "case counts": (["A b c d e f"], ["a b c d e f"], 100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** (1 / 4)),
    "punctuation is a token as it stands": (["a b c d."], ["a b c d ."], 0.0),
    "noisy copies": (*noisy_copies(), None),
}


@pytest.mark.parametrize("name", CORPORA)
def test_bleu_is_as_defined(name):
    hypotheses, references, by_hand = CORPORA[name]
    expected = multi_bleu(hypotheses, references)
    if by_hand is not None:
        assert expected == pytest.approx(by_hand, abs=1e-9)
    assert score(hypotheses, references).bleu == pytest.approx(expected, abs=1e-6)


def test_the_noisy_corpus_tells_scores_apart():
    hypotheses, references = noisy_copies()
    assert 40 < multi_bleu(hypotheses, references) < 90


def test_bleu_counts_over_the_corpus_and_not_over_sentences():
    hypotheses, references = ["a b c d e", "x y"], ["a b c d e", "v w"]
    assert score(hypotheses, references).bleu == pytest.approx(100 * (5 / 7 * 4 / 5) ** (1 / 4), abs=1e-6)


@pytest.mark.parametrize(
    ("protocol", "options"),
    [("bleu", ["--tokenize", "none", "--smooth-method", "none", "--force"]), ("sacrebleu", [])],
)
def test_both_protocols_are_those_of_the_command_line(tmp_path, protocol, options):
    hypotheses, references = noisy_copies()
    hypotheses, references = [*hypotheses, "It is, I say,good."], [*references, "It is, I say, Good ."]
    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "sacrebleu", tmp_path / "references", "-i", tmp_path / "hypotheses", "-b", "-w", "6"]
        + options,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    scores = score(hypotheses, references)
    assert result.stdout.strip() == f"{getattr(scores, protocol):.6f}"
    assert scores.bleu != scores.sacrebleu


def test_signatures_tell_the_protocols():
    scores = score(["a b c d"], ["a b c d"])
    assert "tok:none|smooth:none" in scores.bleu_signature
    assert "tok:13a|smooth:exp" in scores.sacrebleu_signature
    for signature in (scores.bleu_signature, scores.sacrebleu_signature):
        assert "nrefs:1|case:mixed" in signature


def test_exact_match_is_a_rate_of_whole_lines():
    assert score(["a b", "", "c", "d"], ["a b", "", "c d", "e"]).exact_match == 50.0
    assert score(["a"], ["b"]).exact_match == 0.0
    assert score(["a", ""], ["a", ""]).exact_match == 100.0


def test_different_numbers_of_lines_are_refused():
    with pytest.raises(ValueError, match="2 hypotheses for 1 references"):
        score(["a", "b"], ["a"])
