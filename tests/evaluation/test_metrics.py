"""BLEU and chrF equal computations by hand and sacreBLEU's command line; exact matches."""

import collections
import math
import random
import subprocess
import sys

import pytest
from sacrebleu.tokenizers import tokenizer_ja_mecab, tokenizer_ko_mecab

from memattn.evaluation import metrics
from memattn.evaluation.metrics import METRICS, Comparison


def scored(metric, hypotheses, references, **options):
    return METRICS[metric].score(Comparison(hypotheses, references, **options))


def bleu(hypotheses, references, by_characters=False):
    return scored("bleu", hypotheses, references, by_characters=by_characters).value


def of_text(hypotheses, references, language=""):
    """Metric -> score of text as people write it."""
    return {name: scored(name, hypotheses, references, language=language) for name in ("sacrebleu", "chrf")}


def ngrams(words, order):
    return collections.Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))


def multi_bleu(hypotheses, references):
    """BLEU of Papineni et al. (2002) with one reference, orders 1 to 4 and no smoothing, as multi-bleu.perl has it."""
    matches, totals = [0] * 4, [0] * 4
    hypothesis_length = reference_length = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        words, wanted = hypothesis.encode().split(), reference.encode().split()  # bytes, as Perl divides them
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
    "blanks at the ends and repeated": (["  a b  c d e "], ["a b c d e"], 100.0),
    "a tab divides words": (["a\tb c d e"], ["a b c d e"], 100.0),
    "an escape is not what it stands for": (["a b c d 10％00a0000"], ["a b c d 10\u00a0000"], None),
}
ODD_BLANKS = ["\xa0", "\u202f", "\u2009", "\u3000", "\u2028", "\x85", "\u1680", "\x1c", "\x1f", "\u200b"]


@pytest.mark.parametrize("name", CORPORA)
def test_bleu_is_as_defined(name):
    hypotheses, references, by_hand = CORPORA[name]
    expected = multi_bleu(hypotheses, references)
    if by_hand is not None:
        assert expected == pytest.approx(by_hand, abs=1e-9)
    assert bleu(hypotheses, references) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("blank", ODD_BLANKS, ids=ascii)
def test_words_are_divided_by_blanks_alone(blank):
    hypotheses, references = [f"the price is a{blank}b today .", blank], ["the price is a b today .", ""]
    for sides in ((hypotheses, references), (references, hypotheses)):
        assert multi_bleu(*sides) < 99
        assert bleu(*sides) == pytest.approx(multi_bleu(*sides), abs=1e-6)
    assert bleu(hypotheses, hypotheses) == pytest.approx(100)


def test_the_noisy_corpus_tells_scores_apart():
    hypotheses, references = noisy_copies()
    assert 40 < multi_bleu(hypotheses, references) < 90


def test_bleu_counts_over_the_corpus_and_not_over_sentences():
    hypotheses, references = ["a b c d e", "x y"], ["a b c d e", "v w"]
    assert bleu(hypotheses, references) == pytest.approx(100 * (5 / 7 * 4 / 5) ** (1 / 4), abs=1e-6)


TEXTS = {  # language -> hypotheses, references
    "de": (["Er sagt, das ist gut.", "Ein Hund"], ["Er sagt: das ist gut.", "ein Hund"]),
    "zh": (["我们今天去公园，天气很好。", "他 喜欢书"], ["我们今天去了公园，天气真好。", "他喜欢书。"]),
    "ja": (
        ["私は今日とても良い本を読みました。", "犬が好きです。"],
        ["私は昨日とても良い本を読みました。", "犬が好き。"],
    ),
    "ko": (["나는 오늘 학교에 갑니다.", "그는 책을 읽는다."], ["나는 내일 학교에 갑니다.", "그는 책을 읽었다."]),
    "th": (["วันนี้ฝนตก ฉันกินข้าว", "เขาอ่านหนังสือ"], ["วันนี้ฝนตกหนัก ฉันกินข้าว", "เขาอ่านหนังสือ"]),
}
TOKENIZERS = {"de": "13a", "zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab", "th": "13a"}


def command_line(folder, hypotheses, references, *options):
    """Returns what sacreBLEU's command prints for these lines."""
    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = ["-m", "sacrebleu", folder / "references", "-i", folder / "hypotheses", "-b", "-w", "6", *options]
    result = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_tokens_are_scored_as_by_the_command_line(tmp_path):
    hypotheses, references = noisy_copies()
    hypotheses, references = [*hypotheses, "It is, I say,good."], [*references, "It is, I say, Good ."]
    options = ["--tokenize", "none", "--smooth-method", "none", "--force"]
    assert command_line(tmp_path, hypotheses, references, *options) == f"{bleu(hypotheses, references):.6f}"
    written = of_text(hypotheses, references)
    assert command_line(tmp_path, hypotheses, references) == f"{written['sacrebleu'].value:.6f}"
    assert command_line(tmp_path, hypotheses, references, "-m", "chrf") == f"{written['chrf'].value:.6f}"


@pytest.mark.parametrize("language", ["zh", "ja", "ko"])
def test_a_language_has_the_tokenizer_that_the_command_line_gives_it(tmp_path, language):
    written = of_text(*TEXTS[language], language)
    assert command_line(tmp_path, *TEXTS[language], "-l", f"en-{language}") == f"{written['sacrebleu'].value:.6f}"
    assert written["sacrebleu"].value > 20


@pytest.mark.parametrize("language", TEXTS)
def test_signatures_tell_the_protocols(language):
    for by_characters, name in ((False, "none"), (True, "char")):
        signature = scored("bleu", *TEXTS[language], by_characters=by_characters).signature
        assert f"tok:{name}|smooth:none" in signature
        assert "nrefs:1|case:mixed" in signature
    written = of_text(*TEXTS[language], language)
    assert f"|tok:{TOKENIZERS[language]}" in written["sacrebleu"].signature
    assert "|smooth:exp|" in written["sacrebleu"].signature
    assert "|nc:6|nw:0|" in written["chrf"].signature


@pytest.mark.parametrize("language", ["zh", "ja", "th"])
def test_bleu_on_characters_tells_texts_without_blanks_apart(language):
    hypotheses, references = TEXTS[language]
    assert bleu(hypotheses, references) == 0
    assert 20 < bleu(hypotheses, references, True) < 99
    divided = [" ".join(line) for line in hypotheses]  # as a tokenizer may divide it
    assert bleu(divided, references, True) == bleu(hypotheses, references, True)


@pytest.mark.parametrize(("language", "module"), [("ja", tokenizer_ja_mecab), ("ko", tokenizer_ko_mecab)])
def test_without_its_tokenizer_a_language_is_scored_on_characters(monkeypatch, language, module):
    monkeypatch.setattr(module, "MeCab", None)
    metrics.default_bleu.cache_clear()
    problem = rf"tokenizer of '{language}' is missing \(extra `cjk`: pip install 'sacrebleu\[ja,ko\]'\)"
    with pytest.warns(UserWarning, match=problem) as said:
        written = [of_text(*TEXTS[language], language) for _ in range(3)]
    metrics.default_bleu.cache_clear()
    assert len(said) == 1
    assert "|tok:char|" in written[0]["sacrebleu"].signature
    assert written[0]["sacrebleu"].value > 20


# name -> hypothesis, reference, BLEU with sacreBLEU's defaults, chrF
BY_HAND = {
    "the same": ("this is a test", "this is a test", 100, 100),
    "nothing in common": ("abcd efg", "hijk lmno", 0, 0),
    "nothing said": ("", "this is a test", 0, 0),
    "one letter": ("this is a fest", "this is a test", 100 * (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** (1 / 4), None),
    "punctuation is divided": ("I do, too.", "I do , too .", 100, 100),
    "half of the letters": ("ab", "ac", 0, 100 * (1 / 2 + 0) / 2),
    "recall counts more": ("ab", "abc", None, 100 * 5 / (4 / ((2 / 3 + 1 / 2) / 2) + 1)),
    "blanks are no letters": ("a b", "ab", 0, 100),
    "case counts": ("A", "a", 0, 0),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_written_text_is_scored_as_by_hand(name):
    hypothesis, reference, bleu, chrf = BY_HAND[name]
    written = of_text([hypothesis], [reference])
    if bleu is not None:
        assert written["sacrebleu"].value == pytest.approx(bleu, abs=1e-6)
    if chrf is not None:
        assert written["chrf"].value == pytest.approx(chrf, abs=1e-6)


def test_exact_match_is_a_rate_of_whole_lines():
    assert scored("exact_match", ["a b", "", "c", "d"], ["a b", "", "c d", "e"]).value == 50.0
    assert scored("exact_match", ["a"], ["b"]).value == 0.0
    assert scored("exact_match", ["a", ""], ["a", ""]).value == 100.0


def test_different_numbers_of_lines_are_refused():
    with pytest.raises(ValueError, match="2 hypotheses for 1 references"):
        Comparison(["a", "b"], ["a"])


def test_without_a_sentence_there_is_no_score():
    with pytest.raises(ValueError, match="there is no sentence to score"):
        Comparison([], [])


def test_perplexity_is_that_of_the_loss_which_is_computed_once():
    asked = []
    comparison = Comparison(["a"], ["a"], target_loss=lambda: asked.append("loss") or 2.5)
    assert METRICS["loss"].score(comparison).value == 2.5
    assert METRICS["perplexity"].score(comparison).value == pytest.approx(math.exp(2.5))
    assert asked == ["loss"]
    assert METRICS["perplexity"].score(Comparison(["a"], ["a"], target_loss=lambda: math.inf)).value > 1e300


def test_text_is_detokenized_once_and_only_for_metrics_of_text():
    lines = []
    comparison = Comparison(
        ["a b ."], ["a b ."], detokenize=lambda line: lines.append(line) or "a b.", detokenized_references=["a b."]
    )
    for name, metric in METRICS.items():
        if not metric.needs_detokenized and name not in ("loss", "perplexity"):
            metric.score(comparison)
    assert lines == []
    assert METRICS["chrf"].score(comparison).value == pytest.approx(100)
    METRICS["sacrebleu"].score(comparison)
    assert lines == ["a b ."]


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_tells_the_better_of_two_values(name):
    metric = METRICS[name]
    assert metric.is_better(2.0, 1.0) is metric.higher_is_better
    assert metric.is_better(1.0, 2.0) is not metric.higher_is_better
    assert not metric.is_better(1.0, 1.0)
    assert metric.title and metric.score.__doc__.endswith(".")


def test_a_validation_has_the_metric_that_decides_and_cheap_ones():
    assert metrics.validation_metrics("bleu") == ["bleu", "exact_match"]
    assert metrics.validation_metrics("chrf") == ["bleu", "chrf", "exact_match"]
