"""Metrics equal computations by hand and sacreBLEU's command line."""

import json
import math

import pytest
from helpers.repository import run_python
from helpers.runs import made_up_result, tiny
from helpers.texts import sentences
from sacrebleu.tokenizers import tokenizer_ko_mecab

from memattn.errors import ConfigError, DataError
from memattn.evaluation import metrics
from memattn.evaluation.metrics import METRICS, Comparison
from memattn.runs.result import Result


def score(metric, hypotheses, references, **options):
    return METRICS[metric].score(Comparison(hypotheses, references, **options))


def bleu(hypotheses, references, by_characters=False):
    return score("bleu", hypotheses, references, by_characters=by_characters).value


def text_scores(hypotheses, references, language=""):
    """Returns the scores of untokenized text, by metric."""
    return {name: score(name, hypotheses, references, language=language) for name in ("sacrebleu", "chrf")}


@pytest.mark.parametrize(
    ("hypotheses", "references", "expected"),  # BLEU as computed by hand
    [
        (["", "a b c d e", ""], ["", "a b c d e", ""], 100),
        (["a b c d e", ""], ["a b c d e", "f g h"], 100 * math.exp(1 - 8 / 5)),
        (["a a a a a b c d a e"], ["a b c d a e"], 100 * (6 / 10 * 5 / 9 * 4 / 8 * 3 / 7) ** (1 / 4)),
        (["a b c x d e f"], ["a b c d e f g"], 0),  # no common 4-gram
        (["A b c d e f"], ["a b c d e f"], 100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** (1 / 4)),
        (["  a b\tc  d e "], ["a b c d e"], 100),
        (["a b c d ％00a0"], ["a b c d \u00a0"], 100 * (4 / 5 * 3 / 4 * 2 / 3 / 2) ** (1 / 4)),
    ],
)
def test_bleu_equals_computations_by_hand(hypotheses, references, expected):
    assert bleu(hypotheses, references) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("blank", ["\xa0", "\x85", "\x1c"], ids=ascii)
def test_only_ascii_blanks_separate_words(blank):
    hypotheses, references = [f"the price is a{blank}b today ."], ["the price is a b today ."]
    assert bleu(hypotheses, references) == 0  # no 4 words in a row are equal
    assert bleu(hypotheses, hypotheses) == pytest.approx(100)


TEXTS = {  # language -> hypotheses, references
    "de": (["Er sagt, das ist gut.", "Ein Hund"], ["Er sagt: das ist gut.", "ein Hund"]),
    "zh": (["我们今天去公园，天气很好。", "他 喜欢书"], ["我们今天去了公园，天气真好。", "他喜欢书。"]),
    "ja": (["私は今日とても良い本を読みました。"], ["私は昨日とても良い本を読みました。"]),
    "ko": (["나는 오늘 학교에 갑니다.", "그는 책을 읽는다."], ["나는 내일 학교에 갑니다.", "그는 책을 읽었다."]),
    "th": (["วันนี้ฝนตก ฉันกินข้าว", "เขาอ่านหนังสือ"], ["วันนี้ฝนตกหนัก ฉันกินข้าว", "เขาอ่านหนังสือ"]),
}
TOKENIZERS = {"de": "13a", "zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab", "th": "13a"}


def command_line(folder, hypotheses, references, *options):
    """Returns the score that sacreBLEU's command prints."""
    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = [folder / "references", "-i", folder / "hypotheses"]
    return run_python("-m", "sacrebleu", *files, "-b", "-w", "6", *options).stdout.strip()


@pytest.mark.slow
def test_tokens_are_scored_as_by_the_command_line(tmp_path):
    references = [*sentences(60, 1), "It is, I say, Good ."]
    hypotheses = [line.replace("der", "ein das").replace(", Good .", ",good.") for line in references]
    options = ["--tokenize", "none", "--smooth-method", "none", "--force"]
    assert command_line(tmp_path, hypotheses, references, *options) == f"{bleu(hypotheses, references):.6f}"
    scores = text_scores(hypotheses, references)
    assert command_line(tmp_path, hypotheses, references) == f"{scores['sacrebleu'].value:.6f}"
    assert command_line(tmp_path, hypotheses, references, "-m", "chrf") == f"{scores['chrf'].value:.6f}"


@pytest.mark.parametrize(
    ("code", "language"),
    [*zip(TEXTS, TEXTS, strict=True), ("zho_Hans", "zh"), ("yue_Hant", "zh"), ("ja-JP", "ja"), ("kor", "ko")],
)
def test_signatures_name_tokenizer_smoothing_and_orders_whatever_the_code_of_the_language(code, language):
    for by_characters, name in ((False, "none"), (True, "char")):
        signature = score("bleu", *TEXTS[language], by_characters=by_characters).signature
        assert f"tok:{name}|smooth:none" in signature
        assert "nrefs:1|case:mixed" in signature
    scores = text_scores(*TEXTS[language], code)
    assert f"|tok:{TOKENIZERS[language]}" in scores["sacrebleu"].signature
    assert "|smooth:exp|" in scores["sacrebleu"].signature
    assert "|nc:6|nw:0|" in scores["chrf"].signature
    assert scores == text_scores(*TEXTS[language], language)


def test_without_its_tokenizer_a_language_is_scored_on_characters(monkeypatch):
    monkeypatch.setattr(tokenizer_ko_mecab, "MeCab", None)
    metrics.default_bleu.cache_clear()
    problem = r"tokenizer of 'ko' is missing \(extra `cjk`: pip install 'sacrebleu\[ja,ko\]'\)"
    with pytest.warns(UserWarning, match=problem) as caught:
        first, *_ = [text_scores(*TEXTS["ko"], "ko") for _ in range(3)]
    metrics.default_bleu.cache_clear()
    assert len(caught) == 1
    assert "|tok:char|" in first["sacrebleu"].signature
    assert first["sacrebleu"].value > 20


def test_exact_match_is_the_percentage_of_equal_lines():
    assert score("exact_match", ["a b", "", "c", "d"], ["a b", "", "c d", "e"]).value == 50.0


def test_loss_and_perplexity_share_a_loss_that_is_computed_once():
    calls = []
    comparison = Comparison(["a"], ["a"], target_loss=lambda: calls.append("loss") or 2.5)
    assert METRICS["loss"].score(comparison).value == 2.5
    assert METRICS["perplexity"].score(comparison).value == pytest.approx(math.exp(2.5))
    assert calls == ["loss"]


def test_a_result_with_an_infinite_loss_can_be_read():
    comparison = Comparison(["a"], ["a"], target_loss=lambda: math.inf)
    scores = {name: METRICS[name].score(comparison).value for name in ("loss", "perplexity")}
    assert min(scores.values()) > 1e13
    result = made_up_result(tiny({}), scores={"bleu": 1.0, **scores})
    assert Result.from_json(json.loads(json.dumps(result.to_json()))).scores == result.scores


def test_a_metric_prefers_the_better_of_two_values():
    lower_is_better = {name for name, metric in METRICS.items() if metric.is_better(1.0, than=2.0)}
    assert lower_is_better == {"cer", "wer", "malformed_trees", "perplexity", "loss"}
    assert not any(metric.is_better(1.0, than=1.0) for metric in METRICS.values())


def test_a_validation_computes_the_deciding_metric_and_cheap_ones():
    assert metrics.validation_metrics("bleu") == ["bleu", "exact_match"]
    assert metrics.validation_metrics("chrf") == ["bleu", "chrf", "exact_match"]


@pytest.mark.parametrize(
    ("metric", "hypotheses", "references", "value", "counts"),
    [
        ("wer", ["a d s t"], ["a c s"], 200 / 3, "1 substitutions, 1 insertions, 0 deletions in 3 words"),
        ("cer", ["abd", ""], ["abc", "de"], 60.0, "1 substitutions, 0 insertions, 2 deletions in 5 characters"),
        ("wer", ["a"], [""], 100.0, "0 substitutions, 1 insertions, 0 deletions in 0 words"),
    ],
)
def test_error_rates_count_edits(metric, hypotheses, references, value, counts):
    pytest.importorskip("jiwer")
    rate = score(metric, hypotheses, references)
    assert rate.value == pytest.approx(value)
    assert rate.signature == counts


@pytest.mark.parametrize(("metric", "value"), [("cer", 100 / 5), ("wer", 100 / 2), ("rouge1", 100 / 2)])
def test_error_rates_and_rouge_are_of_ordinary_text(metric, value):
    pytest.importorskip("jiwer")
    pytest.importorskip("rouge_score")
    ordinary = {
        "detokenize": lambda lines: [line.replace("@@ ", "") for line in lines],
        "detokenized_references": ["a dog"],
    }
    assert score(metric, ["a d@@ ot"], ["a d@@ og"], **ordinary).value == pytest.approx(value)


def test_rouge_equals_a_computation_by_hand():
    pytest.importorskip("rouge_score")
    hypotheses = ["Fast sound editors.", "a tool for editing", ""]
    references = ["the fast editor of sounds", "editing tools", "nothing"]
    comparison = Comparison(hypotheses, references)
    # fast, sound and editor of 3 and 5 words; tool and edit of 4 and 2
    assert METRICS["rouge1"].score(comparison).value == pytest.approx(100 * (2 * 3 / 8 + 2 * 2 / 6 + 0) / 3)
    assert METRICS["rouge2"].score(comparison).value == 0
    # fast, sound or fast, editor; tool or edit
    assert METRICS["rougeL"].score(comparison).value == pytest.approx(100 * (2 * 2 / 8 + 2 * 1 / 6 + 0) / 3)
    assert METRICS["rougeL"].score(comparison).signature.startswith("stemmed|rouge-score:")


@pytest.mark.parametrize(
    ("kind", "package", "names"),
    [("transcripts", "jiwer", {"cer", "wer"}), ("summaries", "rouge_score", {"rouge1", "rouge2", "rougeL"})],
)
def test_metrics_of_transcripts_and_summaries_are_computed_where_they_are_asked_for(kind, package, names):
    pytest.importorskip(package)
    assert not names & set(metrics.evaluation_metrics(["a c"]))
    assert names <= set(metrics.evaluation_metrics(["a c"], {kind}))
    assert metrics.scores(Comparison(["a b"], ["a c"]), names).keys() == names


def test_a_metric_without_its_package_is_refused(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    metrics.check_installed({"any", "text"})
    for kind, extra in (("transcripts", "speech"), ("summaries", "rouge")):
        with pytest.raises(ConfigError, match=f"metrics of {kind} need .*, of the extra `{extra}`"):
            metrics.check_installed({"any", kind})


DOG = "(S (NP XX XX )NP (VP XX (NP XX )NP )VP . )S"  # four brackets, four words
BRACKETING = {  # hypothesis -> matched brackets, brackets of the hypothesis; None if it is malformed
    DOG: (4, 4),
    "(S (NP XX XX )NP , (VP XX (NP XX )NP )VP )S": (4, 4),  # punctuation is no word
    "(S (NP XX XX )NP (VP XX (PP XX )PP )VP . )S": (3, 4),  # another label
    "(S (NP (NP XX XX )NP )NP (VP XX (NP XX )NP )VP . )S": (4, 5),  # a bracket twice counts once
    "(NP XX XX )NP (VP XX (NP XX )NP )VP .": (3, 3),  # no bracket around all
    "(S (NP XX XX )NP (VP XX (NP XX )NP )VP .": None,
    "(S (NP XX )NP (VP XX (NP XX )NP )VP . )S": None,  # a word is missing
    "(S (NP XX XX )NP (VP XX (NP <unk> )NP )VP . )S": None,
    "": None,
}


@pytest.mark.parametrize("hypothesis", BRACKETING)
def test_brackets_are_counted_as_by_hand_and_a_malformed_tree_has_none(hypothesis):
    matched, brackets = BRACKETING[hypothesis] or (0, 0)
    hypotheses, references = [hypothesis, "(NP XX )NP"], [DOG, "(NP XX )NP"]
    scores = {
        name: score(name, hypotheses, references).value for name, entry in METRICS.items() if entry.kind == "trees"
    }
    precision, recall = (matched + 1) / (brackets + 1), (matched + 1) / 5
    assert scores == {
        "bracketing_f1": pytest.approx(100 * 2 * precision * recall / (precision + recall)),
        "bracketing_precision": pytest.approx(100 * precision),
        "bracketing_recall": pytest.approx(100 * recall),
        "malformed_trees": 0 if BRACKETING[hypothesis] else 50,
    }


def test_only_trees_are_scored_as_trees():
    of_any, of_text = {"bleu", "exact_match", "perplexity", "loss"}, {"sacrebleu", "chrf"}
    of_trees = {"bracketing_f1", "bracketing_precision", "bracketing_recall", "malformed_trees"}
    assert set(metrics.evaluation_metrics(["(NP XX )NP"])) == of_any | of_trees
    assert set(metrics.evaluation_metrics(["a b"])) == of_any | of_text
    assert score("malformed_trees", ["XX )NP"], ["(NP XX )NP"]).value == 100
    with pytest.raises(DataError, match="the reference 'a b' is no tree; see memattn-prepare parsing"):
        score("bracketing_f1", ["(NP XX )NP"], ["a b"])
