"""Translation of text: files, standard input, n-best lists, alignments, ensembles, scores of pairs."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
from helpers.files import lines_of
from helpers.models import make_model, padded
from helpers.repository import ROOT
from helpers.runs import evaluate, translator
from helpers.texts import SETTINGS

from memattn.config import DecodingConfig
from memattn.data.preparation import parallel
from memattn.data.tokenizer import SubwordTokenizer
from memattn.data.units import Subwords
from memattn.data.vocabulary import BOS, EOS
from memattn.errors import ConfigError, DataError
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation.evaluate import read_files, write
from memattn.models.interface import Ensemble
from memattn.runs.run import Run
from memattn.runs.trained import load
from memattn.search.searcher import Searcher
from memattn.serving.lines import available_lines
from memattn.serving.scorer import PairScorer
from memattn.serving.translator import Part, split, word_alignment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def evaluated(runs, tmp_path_factory):
    """The result of a run on the prepared split test, and the folder of its files."""
    folder = tmp_path_factory.mktemp("evaluated")
    return evaluate(runs[0][1], split="test", output_dir=folder), folder


def test_raw_files_have_the_scores_of_the_prepared_split(runs, trained, evaluated, tmp_path):
    prepared, folder = evaluated
    files = [str(runs[1] / f"test.{side}") for side in ("en", "de")]
    from_files = evaluation.evaluate(trained, read_files(trained, *files), repeats=1)
    write(from_files, trained, str(tmp_path / "files"), num_plots=0)
    raw = from_files.result.to_json()
    for name in ("bleu", "sacrebleu", "exact_match"):
        assert raw[name] == prepared[name]
    assert raw["bleu"] > 20
    names = ["hypotheses.txt", "references.txt", "hypotheses.detokenized.txt", "references.detokenized.txt"]
    for name in names:
        assert lines_of(folder / name) == lines_of(tmp_path / "files" / name)
    hypotheses, references, detokenized, originals = (lines_of(tmp_path / "files" / name) for name in names)
    assert originals == lines_of(files[1])
    assert raw["sacrebleu"] == sacrebleu.corpus_bleu(detokenized, [originals]).score
    assert "@@" not in "".join(hypotheses)
    assert references[0].endswith(" .")


def with_decoding(trained, **changes):
    """A trained run with other options of the search."""
    decoding = dataclasses.replace(trained.config.decoding, **changes)
    return dataclasses.replace(trained, config=dataclasses.replace(trained.config, decoding=decoding))


@pytest.mark.long
def test_each_split_and_file_has_a_folder_of_results(runs, command):
    flags_of = {"valid": [], "test": ["--split=test"], "test.en": ["--source=./test.en", "--target=test.de"]}
    for folder, flags in flags_of.items():
        out = command(runs[1], "memattn.eval", "--run_dir=memory", "--repeats=1", *flags).stdout
        assert re.search("^written to (.*): result.json", out, re.MULTILINE)[1] == f"memory/eval/{folder}"


def test_a_string_in_place_of_a_list_is_refused(trained):
    with pytest.raises(DataError, match="lines: must be a list of strings, not the string 'Haus'"):
        translator(trained).translate("Haus")


def test_files_of_different_length_are_refused(runs, trained, tmp_path):
    (tmp_path / "short").write_text("a\n")
    with pytest.raises(DataError, match=r"test.en has 20 lines and .*short has 1"):
        read_files(trained, str(runs[1] / "test.en"), str(tmp_path / "short"))


def test_lines_are_translated_in_order_as_evaluation_does(runs, trained, evaluated):
    source = lines_of(runs[1] / "test.en")
    expected = lines_of(evaluated[1] / "hypotheses.detokenized.txt")
    translate = translator(trained)
    assert list(translate(source, 1)) == expected
    assert [list(translate([line], 1)) for line in source[:3]] == [[line] for line in expected[:3]]
    assert list(translate([source[0], "", "  ", source[1]], 1)) == [expected[0], "", "", expected[1]]


def test_n_best_scores_and_their_order(trained):
    lines = translator(trained, n_best=3, scores=True)(["Haus Hund.", "alt neu grün."], 7)
    fields = [line.split("\t") for line in lines]
    assert [number for number, _, _ in fields] == ["7"] * 3 + ["8"] * 3
    for group in (fields[:3], fields[3:]):
        scores = [float(score) for _, score, _ in group]
        assert scores == sorted(scores, reverse=True)
        assert len({text for *_, text in group}) > 1
    assert list(translator(trained, n_best=3, scores=True)([""], 7)) == ["7\t0.000000\t"]  # its only hypothesis
    with pytest.raises(ConfigError, match="--nbest: 4 .*decoding.beam_size = 3"):
        translator(trained, n_best=4)


def test_scores_of_translations_equal_scores_of_the_same_pairs(trained):
    source = ["Haus Hund Katze.", "der alt Stadt."]
    best = [line.split("\t") for line in translator(trained, scores=True)(source, 1)]
    pairs = [f"{line}\t{text}" for line, (_, text) in zip(source, best, strict=True)]
    scores = list(PairScorer(trained)(pairs, 1))
    np.testing.assert_allclose([float(score) for score, _ in best], [float(score) for score in scores], atol=2e-3)


@pytest.mark.parametrize("line", ["two\ttabs\there", ""])
def test_a_line_that_is_no_pair_is_reported_with_its_number(trained, line):
    scores = PairScorer(trained)(["a\tb", line], 11)
    assert float(next(scores)) < 0  # the score of the line before is still given
    with pytest.raises(DataError, match="standard input:12: .*tab"):
        next(scores)


def test_words_are_aligned_by_the_attention_weights_of_their_units():
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.1, 0.3, 0.5, 0.1], [0.0, 0.3, 0.35, 0.35]])
    part = Part(["a@@", "b", "c", "d"], ["x", "y@@", "z"], weights)
    assert word_alignment([part], Subwords.word_numbers) == "2-0 1-1"
    weights[1:, 0] = 0.4
    assert word_alignment([part], Subwords.word_numbers) == "2-0 0-1"
    assert word_alignment([part, Part([], [], weights[:0, :0])] * 2, Subwords.word_numbers) == "2-0 0-1 5-2 3-3"


def test_a_model_without_source_weights_has_no_alignments(trained):
    blind = dataclasses.replace(trained, models=[make_model("none", {}, vocabulary_size=len(trained.vocabulary))])
    with pytest.raises(ConfigError, match="--alignment: .*attention"):
        translator(blind, alignment="hard")
    for model in (blind.model, Ensemble([trained.model, blind.model])):
        with pytest.raises(ConfigError, match="decoding.coverage_penalty: "):
            Searcher(model, DecodingConfig(coverage_penalty=0.2))


@pytest.mark.parametrize(("ratio", "limits"), [(1.1, [11, 55]), (1.15, [12, 58])])
def test_a_hypothesis_has_as_many_tokens_as_the_ratio_allows(ratio, limits):
    model = make_model("none", {})
    model.output_layer.bias.assign(tf.one_hot(EOS, 11, -1e9, 0.0))  # the end of sentence is never chosen
    config = DecodingConfig(beam_size=1, max_length_ratio=ratio, jit_compile=False)
    hypotheses = Searcher(model, config)(padded([[4] * 9 + [EOS], [4] * 49 + [EOS]]).numpy())
    assert hypotheses.lengths[:, 0].tolist() == limits


@pytest.mark.parametrize("name", ["memory", "linear"])
def test_the_coverage_penalty_uses_the_attention_weights_of_the_model(name):
    """After a single step, the score of a hypothesis is its log-probability plus the penalty of the step's weights."""
    model = make_model(name, {})
    source = padded([[4, 5, 6, EOS], [7, EOS]])
    config = DecodingConfig(beam_size=3, n_best=3, max_length=1, coverage_penalty=0.4, jit_compile=False)
    hypotheses = Searcher(model, config)(source.numpy())
    shared, state = model.start(model.encode(source), 1, model.token_table())
    logits, scores, _ = model.step(tf.fill([2, 1], BOS), state, shared)
    weights = model.attention_weights(shared, scores).numpy()[:, 0]
    for row, length in enumerate((4, 2)):
        attended = np.abs(weights[row, :length]) / np.abs(weights[row, :length]).sum()  # those of linear have signs
        best = np.sort(tf.nn.log_softmax(logits[row, 0]).numpy())[::-1][:3]
        expected = best + 0.4 * np.log(np.clip(attended, 1e-6, 1)).sum()
        np.testing.assert_allclose(hypotheses.scores[row], expected, rtol=1e-4)


def test_an_ensemble_averages_probabilities(runs):
    first, second, ensemble = (load(run_dirs, [], None) for run_dirs in (runs[0][:1], runs[0][1:], runs[0]))
    source, target = padded([[4, 5, 6, EOS]]), padded([[7, 8, EOS]])
    assert ensemble.config == first.config != second.config
    mean = (tf.nn.softmax(first.model(source, target)) + tf.nn.softmax(second.model(source, target))) / 2
    np.testing.assert_allclose(tf.exp(ensemble.model(source, target)), mean, rtol=1e-4)
    shared, state = ensemble.model.start(ensemble.model.encode(source), 1, ensemble.model.token_table())
    token = BOS
    for position, next_token in enumerate([7, 8, EOS]):
        log_probs, scores, state = ensemble.model.step(tf.constant([[token]]), state, shared)
        np.testing.assert_allclose(tf.exp(log_probs[0, 0]), mean[0, position], rtol=1e-3, atol=1e-6)
        token = next_token
    weights = (first.model.alignments(source, target) + second.model.alignments(source, target)) / 2
    assert np.abs(weights - first.model.alignments(source, target)).max() > 1e-3
    np.testing.assert_allclose(ensemble.model.alignments(source, target), weights, rtol=1e-4)
    last = ensemble.model.attention_weights(shared, scores)
    np.testing.assert_allclose(last[0, 0], weights[0, 2], rtol=1e-3, atol=1e-6)
    assert len(ensemble.checkpoints) == 2


def test_a_result_has_the_median_and_the_range_of_the_timed_decodings(trained, runs, monkeypatch):
    calls, seconds = [], [9.0, 1.0, 3.0, 6.0]
    warm_up, decode = evaluation.warm_up, evaluation.decode

    def timed(*arguments):
        calls.append("decode")
        return decode(*arguments)[0], seconds[calls.count("decode") - 1]

    monkeypatch.setattr(evaluation, "warm_up", lambda *arguments: calls.append("warm up") or warm_up(*arguments))
    monkeypatch.setattr(evaluation, "decode", timed)
    test_set = read_files(trained, *[str(runs[1] / f"test.{side}") for side in ("en", "de")])
    evaluated = evaluation.evaluate(trained, test_set, repeats=4)
    result, tokens = evaluated.result, sum(len(translation.best) + 1 for translation in evaluated.translations)
    assert calls == ["warm up", *["decode"] * 4]
    assert (result.decode_seconds, result.decode_seconds_min, result.decode_seconds_max) == (4.5, 1.0, 9.0)
    assert result.repeats == 4
    assert result.sentences_per_second == pytest.approx(len(test_set.source) / 4.5)
    assert result.tokens_per_second == pytest.approx(tokens / 4.5)


def test_a_line_has_the_same_samples_in_any_batch(runs):
    run, lines = runs[0][1], ["Haus Hund Katze.", "Haus.", "Haus Hund.", "Katze Hund Haus Katze."]

    def sampler(seed):
        sampling = [f"decoding.sample={{temperature: 2.0, seed: {seed}}}", "decoding.n_best=2"]
        return translator(load([run], sampling, None), n_best=2)

    def texts(translate, lines, first):
        return [row.split("\t")[1] for row in translate(lines, first)]

    translate = sampler(seed=1)
    together = texts(translate, lines, 5)
    assert len(set(together)) > 4
    assert sum((texts(translate, [line], number) for number, line in enumerate(lines, 5)), []) == together
    assert texts(translate, lines[:1], 6) != together[:2]
    assert texts(sampler(seed=2), lines, 5) != together


def test_an_ensemble_of_runs_with_other_sources_or_vocabularies_is_refused(runs, monkeypatch, tmp_path):
    reordered = shutil.copytree(runs[0][1], tmp_path / "reordered")
    vocabulary = reordered / "vocab.txt"
    vocabulary.write_text("".join(f"{line}\n" for line in reversed(lines_of(vocabulary))))
    with pytest.raises(
        ConfigError, match="reordered: its vocabulary or BPE differs from that of .*; an ensemble needs the"
    ):
        load([runs[0][0], str(reordered)], [], None)
    monkeypatch.setattr(Run, "source_metadata", property(lambda run: {"length": runs[0].index(run.folder)}))
    with pytest.raises(ConfigError, match="it reads other sources than .*; an ensemble needs the same"):
        load(runs[0], [], None)


def test_lines_are_read_as_soon_as_they_arrive():
    reader, writer = os.pipe()
    try:
        batches = available_lines(reader, 3, 3)
        os.write(writer, b"first\n")
        assert next(batches) == ["first"]  # although the pipe is still open
        os.write(writer, "zweite ü\r\nthird\nfour".encode())
        assert next(batches) == ["zweite ü", "third"]
        os.write(writer, b"th\n\xff\n")
        assert next(batches) == ["fourth"]
        with pytest.raises(DataError, match="standard input:5: .*0xff"):
            next(batches)
        os.write(writer, b"\xff\nlost\n")
        with pytest.raises(DataError, match="standard input:1: not UTF-8 text"):
            next(available_lines(reader, 3, 3))
    finally:
        os.close(reader)
        os.close(writer)


def test_a_file_is_read_in_batches(tmp_path):
    for content, batches in ((b"\xef\xbb\xbfa\n\n \nc", [["a", ""], [" "], ["c"]]), (b"", [])):
        (tmp_path / "lines").write_bytes(content)
        with open(tmp_path / "lines", "rb") as file:
            assert list(available_lines(file.fileno(), 2, 2)) == batches


def test_a_corpus_with_another_vocabulary_is_not_evaluated(runs, tmp_path):
    files = {split: tuple(str(runs[1] / f"{split}.{side}") for side in ("en", "de")) for split in ("train", "valid")}
    parallel.prepare(files, dataclasses.replace(SETTINGS, bpe_units=10), str(tmp_path / "other"), 1)
    with pytest.raises(ConfigError, match="data.folder: .*vocabulary"):
        evaluate(runs[0][0], f"data.folder={tmp_path / 'other'}")


def test_the_command_streams_on_a_pipe(runs, trained):
    source = lines_of(runs[1] / "test.en")[:3]
    expected = list(translator(trained)(source, 1))
    command = [sys.executable, "-m", "memattn.translate", "--run_dir", runs[0][1]]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        for line, translation in zip(source, expected, strict=True):  # which comes before the next line is sent
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{translation}\n"
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_a_run_folder_holds_what_translating_text_needs(runs, tmp_path):
    """A run that was moved away from its data still translates: the run folder holds the BPE codes."""
    moved = shutil.copytree(runs[0][0], tmp_path / "run")
    os.rename(runs[1] / "data", runs[1] / "gone")
    try:
        assert translator(load([str(moved)], [], None)).translate(["Haus."])[0]
    finally:
        os.rename(runs[1] / "gone", runs[1] / "data")
    assert json.loads((moved / "text.json").read_text())["form"] == "raw"


@pytest.mark.parametrize(
    ("tokens", "numbers", "most", "expected"),
    [
        ("", [], 3, [""]),
        ("a b . d e f", range(6), 4, ["a b .", "d e f"]),  # at the end of a sentence
        ("a . b c d e", range(6), 4, ["a . b c", "d e"]),  # unless the sentence ends in the first half
        ("a b@@ c@@ d e", [0, 1, 1, 1, 2], 3, ["a", "b@@ c@@ d", "e"]),  # at the end of a word
        ("a@@ b@@ c@@ d@@ e", [0] * 5, 2, ["a@@ b@@", "c@@ d@@", "e"]),  # within a word that is too long
        ("a@@ 3.@@ 5@@ d@@ e", [0] * 5, 4, ["a@@ 3.@@ 5@@ d@@", "e"]),  # the full stop of a number ends no sentence
        ("a@@ b@@ 。@@ d@@ e", [0] * 5, 4, ["a@@ b@@ 。@@", "d@@ e"]),
    ],
)
def test_long_lines_are_split_at_ends_of_sentences_and_words(tokens, numbers, most, expected):
    pieces = split(tokens.split(), list(numbers), most)
    assert [" ".join(piece) for piece in pieces] == expected


def long_line_translator(trained, long_lines="split", max_source_length=6, **options):
    return translator(with_decoding(trained, long_lines=long_lines, max_source_length=max_source_length), **options)


def test_a_line_that_is_split_has_the_translations_of_its_pieces(trained):
    pieces = ["Haus Hund Katze.", "Hund Katze Haus.", "Katze Haus Hund."]
    lines, most = ["Haus Hund.", " ".join(pieces), "neu."], len(trained.tokenizer.encode(pieces[0], "source"))
    translate = long_line_translator(trained, max_source_length=most, n_best=2, scores=True)
    with pytest.warns(UserWarning, match=rf"^standard input:6: \d+ tokens, .* the {most} that .*3 pieces$"):
        rows = [line.split("\t") for line in translate(lines, 5)]
    assert [number for number, *_ in rows] == ["5", "5", "6", "6", "7", "7"]
    alone = [[line.split("\t")[1:] for line in translate([piece], 1)] for piece in pieces]
    for k in range(2):
        score_of_pieces = sum(float(piece[k][0]) for piece in alone)
        assert float(rows[2 + k][1]) == pytest.approx(score_of_pieces, abs=1e-4)
    tokens = [trained.tokenizer.encode(piece[0][1], "target") for piece in alone]
    assert [rows[2][2]] == trained.tokenizer.detokenize(trained.tokenizer.decode([sum(tokens, [])]))


def test_a_line_that_is_cut_has_the_translation_of_its_first_tokens(trained):
    line = "Haus Hund Katze alt neu"
    most = len(trained.tokenizer.encode("Haus Hund Katze", "source"))
    with pytest.warns(UserWarning, match=r"^lines:1: .*; the rest is dropped$"):
        translations = long_line_translator(trained, "cut", most).translate([line])
    assert translations == translator(trained).translate(["Haus Hund Katze"])


def test_a_line_that_is_refused_is_reported_after_earlier_results(trained):
    translate = long_line_translator(trained, "refuse", 3)
    lines = translate(["Haus", "Haus Hund Katze alt neu", "Haus"], 4)
    assert next(lines) == translate.translate(["Haus"])[0]
    with pytest.raises(DataError, match=r"standard input:5: \d+ tokens.*decoding.max_source_length"):
        next(lines)
    refusing = with_decoding(trained, long_lines="refuse", max_source_length=3)
    scores = PairScorer(refusing)(["Haus\tHaus", "Haus\tHaus Hund Katze alt neu"], 4)
    assert float(next(scores)) < 0
    with pytest.raises(DataError, match="standard input:5: "):
        next(scores)


@pytest.mark.filterwarnings("ignore:standard input")
def test_a_line_that_is_split_has_alignments_of_all_its_words(trained):
    line = "Haus Hund Katze. alt neu. der Stadt"
    (hard,) = long_line_translator(trained, alignment="hard")([line], 1)
    (soft,) = long_line_translator(trained, alignment="soft")([line], 1)
    text, pairs = hard.split("\t")
    pairs = [tuple(map(int, pair.split("-"))) for pair in pairs.split()]
    words = trained.tokenizer.decode([trained.tokenizer.encode(text, "target")])[0].split()
    assert [word for _, word in pairs] == list(range(len(words)))
    soft = json.loads(soft)
    assert soft["text"] == text
    assert sum((piece["source"] for piece in soft["pieces"]), []) == trained.tokenizer.encode(line, "source")
    for piece in soft["pieces"]:
        assert np.shape(piece["weights"]) == (len(piece["target"]), len(piece["source"]))
        assert 0 < len(piece["source"]) <= 6


def test_a_slow_line_does_not_delay_earlier_lines(trained, monkeypatch):
    """The translations of short lines are given before the search of a longer line."""
    translate, searched_shapes = long_line_translator(trained, max_source_length=99), []
    search = Searcher.__call__

    def watched_search(self, source, numbers):
        searched_shapes.append(source.shape)
        return search(self, source, numbers)

    monkeypatch.setattr(Searcher, "__call__", watched_search)
    lines = translate(["Haus."] * 5 + [" ".join(["Haus"] * 33)], 1)
    for _ in range(5):
        next(lines)
    assert searched_shapes == [(8, 8)]
    assert next(lines)
    assert searched_shapes == [(8, 8), (1, 64)]


@pytest.mark.parametrize("form", ["raw", "truecased"])
def test_white_space_around_a_line_and_double_blanks_change_nothing(trained, form):
    run, settings = Run(trained.runs[0].folder), dataclasses.replace(trained.tokenizer.settings, form=form)
    run.tokenizer = SubwordTokenizer(settings, trained.tokenizer.codes)
    translate = translator(dataclasses.replace(trained, runs=[run]))
    odd = ["Haus Hund .", "Haus Hund .\n", " Haus Hund .\r\n", "\tHaus  Hund . ", "Haus\u00a0Hund ."]
    assert len(set(translate.translate(odd))) == 1
    assert translate.translate([" ", "\n", "\u00a0\u2003", "\t"]) == [""] * 4


def test_the_first_line_with_tokens_that_the_vocabulary_lacks_is_named(trained):
    translate, unknown = translator(trained), "☃ Haus ☃"
    with pytest.warns(UserWarning) as warned:
        translate.translate(["Haus Hund.", unknown, f"{unknown} Hund"])
        translate.translate([unknown])
    (message,) = [str(each.message) for each in warned]
    tokens = trained.tokenizer.encode(unknown, "source")
    number = sum(trained.vocabulary.ids.get(token) is None for token in tokens)
    assert message.startswith(f"lines:2: {number} of {len(tokens)} tokens are not in the vocabulary: ☃ (further")
