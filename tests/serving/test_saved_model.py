"""Exported models compute the same as their runs, and need TensorFlow alone."""

import dataclasses
import json
import os
import re

import numpy as np
import pytest
import tensorflow as tf
from helpers import cudnn
from helpers.files import lines_of
from helpers.models import make_model
from helpers.repository import ROOT, run_python
from helpers.runs import translator

from memattn.data.vocabulary import BOS, EOS
from memattn.errors import ConfigError
from memattn.runs.trained import load
from memattn.serving import saved_model
from memattn.serving.onnx_searcher import METADATA
from memattn.serving.saved_model import EXTRA

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def exported(runs, tmp_path_factory):
    """Pairs of an exported model and its run: the first export searches in graph mode, the second by XLA."""
    folder, exports = tmp_path_factory.mktemp("exported"), []
    for run_dir, jit_compile in zip(runs[0], ("false", "true"), strict=True):
        overrides = ["n_best=3", f"jit_compile={jit_compile}", "max_source_length=23"]  # the last of four padded widths
        output = str(folder / os.path.basename(run_dir))
        saved_model.export(load([run_dir], [f"decoding.{override}" for override in overrides], None), output)
        exports.append((output, load([run_dir], ["decoding.n_best=3"], None)))
    return exports


def translations(folder, run, lines):
    """Returns what `translator` writes as JSON, from an export's outputs: each hypothesis of each line, best first."""
    rows = [run.tokenizer.encode(line, "source") for line in lines]
    source = tf.ragged.constant(rows).to_tensor()
    signature = tf.saved_model.load(folder).signatures["translate_and_align"]
    outputs = {name: tensor.numpy() for name, tensor in signature(source=source).items()}
    results = []
    for line, k in np.argwhere(np.isfinite(outputs["scores"])):
        target = [token.decode() for token in outputs["tokens"][line, k] if token]
        weights = outputs["alignments"][line, k, : len(target), : len(rows[line])]
        (text,) = run.tokenizer.detokenize(run.tokenizer.decode([target]))
        results.append({"line": line + 1, "text": text, "source": rows[line], "target": target})
        results[-1] |= {"score": outputs["scores"][line, k], "weights": weights}
    return results


def assert_same_translations(folder, run, lines):
    """An export's hypotheses, scores and weights are its run's, within rounding."""
    exported = translations(folder, run, lines)
    expected = map(json.loads, translator(run, n_best=run.config.decoding.n_best, alignment="soft")(lines, 1))
    for result, wanted in zip(exported, expected, strict=True):
        np.testing.assert_allclose(result.pop("score"), wanted.pop("score"), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(result.pop("weights"), wanted.pop("weights"), atol=2e-4)
        assert result == wanted


@pytest.mark.filterwarnings("ignore:standard input.*not in the vocabulary")
@pytest.mark.parametrize("which", [0, 1])
def test_an_exported_model_translates_as_its_run(exported, runs, which):
    assert_same_translations(*exported[which], [*lines_of(runs[1] / "test.en"), "Haus quux Hund.", "<unk> <s> Haus"])


def test_an_export_from_a_machine_with_a_gpu_does_not_need_a_gpu(runs, tmp_path, monkeypatch):
    run = load(runs[0][:1], ["decoding.jit_compile=false", "decoding.max_source_length=6"], None)
    calls = cudnn.emulate(monkeypatch)
    saved_model.export(run, str(tmp_path / "exported"))
    assert not calls
    run.model.encode(tf.constant([[4, EOS]]))
    assert calls is None or calls  # other graphs do run cuDNN


@pytest.mark.long
def test_a_recurrent_mechanism_is_exported(runs, tmp_path):
    """Loops over steps work although an export leaves the numbers of sources and queries open; weights are random."""
    overrides = ["jit_compile=false", "max_length=5", "n_best=3", "max_source_length=20"]
    run = load(runs[0][:1], [f"decoding.{override}" for override in overrides], None)
    model = make_model("matcha", {}, vocabulary_size=len(run.vocabulary.tokens))
    never = tf.one_hot(BOS, len(run.vocabulary.tokens), -1e9, 0.0)  # the run's lines leave this token out
    model.output_layer.bias.assign(never)
    run = dataclasses.replace(run, models=[model])
    saved_model.export(run, str(tmp_path / "exported"))
    assert_same_translations(str(tmp_path / "exported"), run, ["Haus Hund Katze.", "Haus."])


def test_an_ensemble_is_exported_and_refuses_a_source_that_is_too_long_at_any_padded_width(runs, tmp_path):
    """Such a source is not cut either. The model takes 15 tokens; with their end, they fill a padded width."""
    both, folder = load(runs[0], ["decoding.max_source_length=15"], None), str(tmp_path / "both")
    saved_model.export(both, folder)
    lines = [line for line in lines_of(runs[1] / "test.en") if len(both.tokenizer.encode(line, "source")) <= 15]
    assert_same_translations(folder, both, lines)
    search = tf.saved_model.load(folder).signatures["search"]
    source = np.full([1, 40], 5, np.int32)
    source[:, 15] = EOS
    source[:, 16:] = 0
    assert search(source=tf.constant(source))["scores"].shape == (1, 1)
    source[:, 15:] = 5
    with pytest.raises(tf.errors.InvalidArgumentError, match="a source has more than 15 tokens"):
        search(source=tf.constant(source))


@pytest.mark.parametrize("which", [0, 1])
def test_a_batch_may_be_empty_or_of_padding_alone(exported, which):
    signatures = tf.saved_model.load(exported[which][0]).signatures
    for source in (np.zeros([0, 5], np.int32), np.zeros([2, 5], np.int32)):
        outputs = signatures["search"](source=tf.constant(source))
        assert outputs["tokens"].shape[:2] == outputs["lengths"].shape == outputs["scores"].shape == (len(source), 3)
        assert (outputs["lengths"].numpy() == 0).all()
    outputs = signatures["translate_and_align"](source=tf.constant(np.zeros([0, 5], "S1")))
    assert outputs["alignments"].shape[::3] == (0, 6)


def test_an_empty_string_or_a_pad_ends_a_source(exported):
    folder, run = exported[0]
    signatures, (a, b, c) = tf.saved_model.load(folder).signatures, run.vocabulary.tokens[5:8]
    words = [[a, b, "", "", ""], [a, b, "", c, a]]
    outputs = signatures["serving_default"](source=tf.constant(words))
    np.testing.assert_array_equal(*outputs["tokens"].numpy())
    ids = tf.constant([[5, 6, EOS, 0, 0], [5, 6, EOS, 0, 7]])
    np.testing.assert_array_equal(*signatures["search"](source=ids)["tokens"].numpy())


def test_models_that_cannot_be_exported_are_refused(trained, tmp_path, monkeypatch):
    sampling = load([os.path.dirname(os.path.dirname(trained.checkpoints[0]))], ["decoding.sample={}"], None)
    with pytest.raises(ConfigError, match=r"decoding.sample: sampling is not exported"):
        saved_model.export(sampling, str(tmp_path / "new"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(OSError, match="No space left"):
        saved_model.export(trained, str(tmp_path / "new"))
    assert not list(tmp_path.iterdir())


def test_the_command_exports(runs, command, tmp_path):
    output = str(tmp_path / "model")
    flags = ["--run_dir=bahdanau", f"--output={output}", "--set=decoding.max_source_length=6"]
    result = command(runs[1], "memattn.export", *flags)
    assert (result.stdout, result.stderr) == (f"{output}: takes sources of up to 6 tokens\n", "")
    assert json.loads((tmp_path / "model" / EXTRA / METADATA).read_text())["max_source_length"] == 6


def test_the_program_of_the_page_translates_lines_without_memattn(exported, tmp_path):
    """It needs TensorFlow, sacremoses and subword-nmt."""
    folder, run = exported[0]
    page = (ROOT / "docs/guides/export.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    changes = {
        '"exported/multi30k.en-de"': repr(folder),
        '"Two dogs are playing."': '"Haus Hund Katze."',
        '"A man."': '"alt."',
    }
    for text, replacement in changes.items():
        assert text in program
        program = program.replace(text, replacement)
    program += '\nimport sys\nassert not any(name.split(".")[0] == "memattn" for name in sys.modules)\n'
    result = run_python("-c", program, folder=tmp_path, env={**os.environ, "PYTHONPATH": ""})
    assert result.stdout.splitlines() == translator(run).translate(["Haus Hund Katze.", "alt."])
