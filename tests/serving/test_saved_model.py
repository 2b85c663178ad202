"""Exported models compute the same as their runs, and need TensorFlow alone."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from helpers import cudnn
from helpers.files import lines_of
from helpers.models import make_model
from helpers.repository import ROOT
from helpers.runs import translator

from memattn.data.corpus import VOCABULARY
from memattn.data.vocabulary import EOS
from memattn.errors import ConfigError, DataError, RunError
from memattn.runs.trained import load
from memattn.serving import saved_model
from memattn.serving.saved_model import EXTRA, FACTS
from memattn.serving.translator import Translator

pytestmark = pytest.mark.slow

STRANGE = ["", "Haus quux Hund.", "   ", "<unk> <s> Haus"]


@pytest.fixture(scope="module")
def exported(runs, tmp_path_factory):
    """Pairs of an exported model and its run: the first searches in graph mode, the second by XLA."""
    folder, exports = tmp_path_factory.mktemp("exported"), []
    for run_dir, jit_compile in zip(runs[0], ("false", "true"), strict=True):
        overrides = ["decoding.n_best=3", f"decoding.jit_compile={jit_compile}"]
        run = load([run_dir], overrides, None)
        output = str(folder / os.path.basename(run_dir))
        saved_model.export(run, output)
        exports.append((output, run))
    return exports


def assert_same_lines(actual, expected):
    """Lines of number, score and text, divided by tabs, are equal, scores within rounding."""
    expected = list(expected)
    assert expected
    for line, expected_line in zip(actual, expected, strict=True):
        number, score, *texts = line.split("\t")
        expected_number, expected_score, *expected_texts = expected_line.split("\t")
        assert (number, texts) == (expected_number, expected_texts)
        np.testing.assert_allclose(float(expected_score), float(score), rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:standard input.*not in the vocabulary")
@pytest.mark.parametrize(("which", "alignment"), [(0, "hard"), (1, None)])
def test_an_exported_model_translates_as_its_run(exported, runs, which, alignment):
    folder, run = exported[which]
    lines = [*lines_of(runs[1] / "test.en"), *STRANGE]
    options = {"scores": True, "alignment": alignment, "replace_unknown": bool(alignment)}
    exported_translator = Translator(*saved_model.load(folder), **options)
    assert_same_lines(exported_translator(lines, 1), translator(run, n_best=3, **options)(lines, 1))


def test_an_export_from_a_machine_with_a_gpu_does_not_need_a_gpu(runs, tmp_path, monkeypatch):
    run = load(runs[0][:1], ["decoding.jit_compile=false"], None)
    calls = cudnn.emulate(monkeypatch)
    saved_model.export(run, str(tmp_path / "exported"), 6)
    assert not calls
    run.model.encode(tf.constant([[4, EOS]]))
    assert calls is None or calls  # other graphs do run cuDNN


@pytest.mark.long
def test_a_recurrent_mechanism_is_exported(runs, tmp_path):
    """Loops over steps work although an export leaves the numbers of sources and queries open; weights are random."""
    overrides = ["decoding.jit_compile=false", "decoding.max_length=5", "decoding.n_best=3"]
    run = load(runs[0][:1], overrides, None)
    model = make_model("matcha", {}, vocabulary_size=len(run.vocabulary.tokens))
    run = dataclasses.replace(run, model=model, models=[model])
    saved_model.export(run, str(tmp_path / "exported"), 20)
    exported = Translator(*saved_model.load(str(tmp_path / "exported")), scores=True)
    lines = ["Haus Hund Katze.", "Haus."]
    assert_same_lines(exported(lines, 1), translator(run, n_best=3, scores=True)(lines, 1))


def test_the_best_hypotheses_of_an_export_come_first(exported):
    lines = ["Haus Hund Katze."]
    best, three_best = (list(Translator(*saved_model.load(exported[0][0], n))(lines, 7)) for n in (1, 3))
    assert three_best[0] == f"7\t{best[0]}"
    with pytest.raises(ConfigError, match="--nbest: 4 .*decoding.n_best = 3"):
        saved_model.load(exported[0][0], 4)


@pytest.mark.long
def test_signatures_of_tokens_need_no_memattn(exported, tmp_path):
    """A process with TensorFlow alone, in another folder, translates tokens to tokens and alignments."""
    folder, run = exported[1]
    tokens = [run.tokenizer.encode(line, "source") for line in ("Haus Hund Katze.", "Haus.")]
    program = """
        import json, sys
        import tensorflow as tf
        model = tf.saved_model.load(sys.argv[1])
        source = tf.constant(json.loads(sys.argv[2]))
        plain = model.signatures["serving_default"](source=source)
        aligned = model.signatures["translate_and_align"](source=source)
        assert not any(name.split(".")[0] == "memattn" for name in sys.modules)
        outputs = {name: tensor.numpy() for name, tensor in aligned.items()}
        assert all((plain[name].numpy() == outputs[name]).all() for name in plain)
        rows = outputs.pop("tokens").reshape(-1, outputs["alignments"].shape[2])
        words = [[word.decode() for word in row] for row in rows]
        print(json.dumps({"words": words, **{name: value.tolist() for name, value in outputs.items()}}))
    """
    width = max(map(len, tokens)) + 2
    padded = json.dumps([[*row, *[""] * (width - len(row))] for row in tokens])
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), folder, padded],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert result.returncode == 0, result.stderr[-2000:]
    outputs = json.loads(result.stdout)
    lines = list(translator(run, n_best=3, scores=True)(["Haus Hund Katze.", "Haus."], 1))
    assert len(lines) == 6
    for place, line in enumerate(lines):
        _, score, text = line.split("\t")
        words = [word for word in outputs["words"][place] if word]
        assert len(words) == np.ravel(outputs["lengths"])[place]
        assert run.tokenizer.detokenize(run.tokenizer.decode(words)) == text
        np.testing.assert_allclose(np.ravel(outputs["scores"])[place], float(score), rtol=1e-3, atol=1e-4)
    weights = np.array(outputs["alignments"])
    assert weights.shape[:2] == (2, 3)
    assert weights.shape[3] == width + 1
    np.testing.assert_allclose(weights.sum(3), np.ones(weights.shape[:3]), rtol=1e-4)  # weights of Bahdanau attention
    assert (weights[1, :, :, len(tokens[1]) + 1 :] == 0).all()
    sources = [run.vocabulary.encode(row) for row in tokens]
    for place, words in enumerate(outputs["words"]):
        source, target = sources[place // 3], run.vocabulary.encode([word for word in words if word])
        expected = run.model.alignments(tf.constant([source]), tf.constant([target]))[0]
        actual = weights[place // 3, place % 3, : len(target), : len(source)]
        np.testing.assert_allclose(actual, expected[: len(actual)], atol=1e-4)


def test_results_do_not_depend_on_the_batch_or_its_width(exported):
    searcher, text, vocabulary = saved_model.load(exported[0][0])
    ids = vocabulary.encode(text.encode("Haus Hund.", "source"))
    results = []
    for rows, width in ((1, len(ids)), (3, 9), (2, 33)):
        source = np.zeros([rows, width], np.int32)
        source[0, : len(ids)] = ids
        results.append(searcher(source))
    alone, *in_batches = results
    longest = int(alone.lengths[0].max())
    for in_batch in in_batches:
        np.testing.assert_array_equal(alone.tokens[0, :, :longest], in_batch.tokens[0, :, :longest])
        np.testing.assert_allclose(alone.scores[0], in_batch.scores[0], rtol=1e-3)


@pytest.mark.long
def test_an_export_repeats_no_ngram(runs, tmp_path):
    run = load(runs[0][1:], ["decoding.no_repeat_ngram_size=1"], None)
    saved_model.export(run, str(tmp_path / "model"), 12)
    lines = ["der der der.", "Haus Haus alt alt"]
    translations = Translator(*saved_model.load(str(tmp_path / "model")), alignment="soft").translate(lines)
    expected = translator(run, alignment="soft").translate(lines)
    for result, wanted in zip(map(json.loads, translations), map(json.loads, expected), strict=True):
        for name, tolerance in (("score", 1e-5), ("weights", 2e-4)):  # rounded numbers may differ in their last digit
            np.testing.assert_allclose(result.pop(name), wanted.pop(name), atol=tolerance)
        assert result == wanted
        tokens = result["target"]
        assert len(tokens) == len(set(tokens)) > 1


def test_an_ensemble_is_exported(runs, tmp_path):
    both = load(runs[0], [], None)
    assert saved_model.export(both, str(tmp_path / "both"), max_source_length=12) == 12
    lines = [line for line in lines_of(runs[1] / "test.en") if len(both.tokenizer.encode(line, "source")) <= 12]
    exported = Translator(*saved_model.load(str(tmp_path / "both")))
    assert list(exported(lines, 1)) == list(translator(both)(lines, 1))


@pytest.mark.filterwarnings("ignore:standard input.*not in the vocabulary")
def test_a_source_that_is_too_long_is_reported_after_earlier_translations(exported):
    folder, run = exported[0]
    with open(os.path.join(folder, EXTRA, FACTS), encoding="utf-8") as file:
        longest = json.load(file)["max_source_length"]
    assert run.model.max_source_length < longest
    searcher, *others = saved_model.load(folder, 1)
    searcher.config = dataclasses.replace(searcher.config, long_lines="refuse")
    translate = Translator(searcher, *others)
    lines = translate(["Haus.", "ü" * longest, "ü" * (longest + 1), "Haus."], 7)
    assert next(lines) == translate.translate(["Haus."])[0]
    next(lines)
    with pytest.raises(DataError, match=f"standard input:9: {longest + 1:,} tokens.*{longest:,}"):
        next(lines)


def test_a_source_that_is_too_long_is_split(exported):
    translate = Translator(*saved_model.load(exported[0][0], 1))
    longest = translate._most_tokens
    with pytest.warns(UserWarning, match=r"lines:2: .*\d+ pieces"):
        first, long, last = translate.translate(["Haus.", "Haus Hund. " * longest, "Haus."])
    assert first == last == translate.translate(["Haus."])[0]
    assert len(long.split()) > longest


@pytest.mark.long
def test_an_export_loads_where_the_class_of_its_mechanism_is_missing(exported, tmp_path):
    folder = tmp_path / "exported"
    shutil.copytree(exported[0][0], folder)
    path = folder / EXTRA / FACTS
    facts = json.loads(path.read_text())
    facts["config"]["model"]["attention"] = {"name": "a_module_that_is_not_here:Attention"}
    path.write_text(json.dumps(facts))
    line = ["Haus Hund Katze."]
    expected = list(Translator(*saved_model.load(exported[0][0]))(line, 1))
    assert list(Translator(*saved_model.load(str(folder)))(line, 1)) == expected


@pytest.mark.long
@pytest.mark.parametrize("which", [0, 1])
def test_a_batch_may_be_empty_or_of_padding_alone(exported, which):
    signatures = tf.saved_model.load(exported[which][0]).signatures
    for source in (np.zeros([0, 5], np.int32), np.zeros([2, 5], np.int32)):
        outputs = signatures["search"](source=tf.constant(source))
        assert outputs["tokens"].shape[:2] == outputs["lengths"].shape == outputs["scores"].shape == (len(source), 3)
        assert (outputs["lengths"].numpy() == 0).all()
    outputs = signatures["serving_default"](source=tf.constant(np.zeros([0, 5], "S1")))
    assert outputs["tokens"].shape[:2] == (0, 3)
    outputs = signatures["translate_and_align"](source=tf.constant(np.zeros([0, 5], "S1")))
    assert outputs["alignments"].shape[::3] == (0, 6)


@pytest.mark.long
def test_a_source_that_is_too_long_is_refused_at_any_padded_width(runs, tmp_path):
    """Such a source is not cut either. The model takes 15 tokens; with their end, they fill a padded width."""
    run = load(runs[0][1:], [], None)
    assert saved_model.export(run, str(tmp_path / "model"), max_source_length=15) == 15
    search = tf.saved_model.load(str(tmp_path / "model")).signatures["search"]
    source = np.full([1, 40], 5, np.int32)
    source[:, 15] = EOS
    source[:, 16:] = 0
    assert search(source=tf.constant(source))["scores"].shape == (1, 1)
    source[:, 15:] = 5
    with pytest.raises(tf.errors.InvalidArgumentError, match="a source has more than 15 tokens"):
        search(source=tf.constant(source))


def test_an_empty_string_or_a_pad_ends_a_source(exported):
    folder, run = exported[0]
    signatures, (a, b, c) = tf.saved_model.load(folder).signatures, run.vocabulary.tokens[5:8]
    words = [[a, b, "", "", ""], [a, b, "", c, a]]
    outputs = signatures["serving_default"](source=tf.constant(words))
    np.testing.assert_array_equal(*outputs["tokens"].numpy())
    ids = tf.constant([[5, 6, EOS, 0, 0], [5, 6, EOS, 0, 7]])
    np.testing.assert_array_equal(*signatures["search"](source=ids)["tokens"].numpy())


@pytest.mark.parametrize(
    "name",
    ["saved_model.pb", "variables/variables.data-00000-of-00001", "variables/variables.index", "fingerprint.pb"],
)
def test_a_truncated_model_is_reported_in_one_line(exported, tmp_path, name):
    damaged = tmp_path / "damaged"
    shutil.copytree(exported[0][0], damaged)
    with open(damaged / name, "r+b") as file:
        file.truncate(os.path.getsize(damaged / name) // 2)
    with pytest.raises(RunError, match=f"{re.escape(str(damaged))}: damaged") as raised:
        saved_model.load(str(damaged))
    assert "\n" not in str(raised.value)


def test_an_export_with_changed_files_is_refused(exported, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(exported[0][0], changed)
    with open(changed / EXTRA / VOCABULARY, "a", encoding="utf-8") as file:
        file.write("more\n")
    with pytest.raises(RunError, match="vocab.txt: missing"):
        saved_model.load(str(changed))
    (changed / EXTRA / FACTS).write_text("{}")
    with pytest.raises(RunError, match="export.json: unreadable"):
        saved_model.load(str(changed))
    with pytest.raises(ConfigError, match="nowhere: not a folder"):
        saved_model.load("nowhere")


def test_models_that_cannot_be_exported_are_refused(trained, exported, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="exists; use another --output"):
        saved_model.export(trained, exported[0][0])
    sampling = load([os.path.dirname(os.path.dirname(trained.checkpoints[0]))], ["decoding.sample={}"], None)
    with pytest.raises(ConfigError, match=r"decoding.sample: sampling is not exported"):
        saved_model.export(sampling, str(tmp_path / "new"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(OSError, match="No space left"):
        saved_model.export(trained, str(tmp_path / "new"))
    assert not list(tmp_path.iterdir())


def test_the_commands_export_and_translate(runs, command, tmp_path):
    output = str(tmp_path / "model")
    status, stdout, stderr = command(runs[1], "memattn.export", "--run_dir", "bahdanau", "--output", output)
    assert (status, stderr) == (0, "")
    assert stdout.startswith(f"{output}: takes sources of up to ")
    process = [sys.executable, "-m", "memattn.translate", "--saved_model", output, "--alignment", "soft"]
    result = subprocess.run(
        process, cwd=ROOT, input="Haus.\n\n", capture_output=True, text=True, check=True, timeout=90
    )
    first, second = map(json.loads, result.stdout.splitlines())
    assert first["source"][0] == "Haus"
    assert np.shape(first["weights"]) == (len(first["target"]), len(first["source"]))
    assert (second["line"], second["text"], second["weights"]) == (2, "", [])
    status, _, stderr = command(runs[1], "memattn.translate", "--saved_model", output, "--average", "2")
    assert status == 2
    assert "--average: for --run_dir, not for an exported model" in stderr
    status, _, stderr = command(runs[1], "memattn.translate")
    assert status == 2
    assert "--run_dir, --saved_model: give one of them" in stderr
