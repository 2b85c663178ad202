"""Models exported to ONNX search as the package does, and need no TensorFlow."""

import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.files import lines_of
from helpers.marks import slow
from helpers.models import SOURCES, V, assert_same_hypotheses, hypotheses_of, make_model, padded, search
from helpers.repository import run_python
from helpers.runs import translator

from memattn.config import Config, DataConfig, DecodingConfig
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import EOS, Vocabulary
from memattn.errors import ConfigError, DataError
from memattn.export import exporter
from memattn.runs.trained import Trained, load

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from memattn.onnx_export.export import export
from memattn.serving.onnx_searcher import OnnxSearcher
from memattn.serving.translator import load_onnx

MODELS = [
    ("memory", {"num_slots": 3, "position_encoding": True, "renormalize": "mean", "encoder_scoring": "sigmoid"}, {}),
    ("bahdanau", {}, {"layers": 2, "tie_embeddings": "all"}),
    ("none", {}, {"mix": False}),
    slow(
        "memory",
        {"num_slots": 8, "decoder_scoring": "sigmoid", "position_encoding": True, "renormalize": "none"},
        {"input_feeding": False, "mix": False},
    ),
    slow("bahdanau", {"cache_keys": False}, {"encoder": "gru", "decoder": "gru", "layers": 2}),
    slow("luong", {"scale": 0.3}, {"bridge": "backward"}),
    slow("luong_dot", {"scale": 0.3}, {"tie_embeddings": "source_target", "mix": False, "input_feeding": False}),
    slow("windowed_memory", {"num_slots": 3, "read_units": 5}, {"encoder_layers": 3}),
    slow("windowed_memory", {"num_slots": 9, "read": "address"}, {}),
    slow("stretch_means", {"num_slots": 3, "read_units": 5}, {}),
    slow("latents", {"num_slots": 3}, {"decoder": "gru", "bridge": "dense"}),
    slow("feed_forward", {}, {}),
    slow("feed_forward", {"weighted": False}, {}),
    slow("linear", {"projection": 3, "gated": True, "normalize": "none"}, {}),
]


def trained(model, **decoding):
    """A trained run of a model, whose tokens are words."""
    config = Config(DataConfig("folder"), decoding=DecodingConfig(beam_size=4, **decoding))
    vocabulary = Vocabulary([f"w{i}" for i in range(V - 4)])
    run = SimpleNamespace(vocabulary=vocabulary, tokenizer=Tokenizer(), longest_source=model.max_source_length)
    return Trained([run], [model], [], config)


def exported(folder, model, **options):
    """An ONNX searcher of a model, which searches as the helper `search` does."""
    run = trained(model, n_best=4, length_penalty=0.7, max_length_ratio=1.5)
    export(run, str(folder / "onnx"), **options)
    return OnnxSearcher(str(folder / "onnx"))


@pytest.mark.parametrize(("name", "options", "switches"), MODELS)
def test_hypotheses_scores_and_weights_are_those_of_the_package_in_any_batch(tmp_path, name, options, switches):
    model = make_model(name, options, **switches)
    searcher, expected = exported(tmp_path, model), search(model, SOURCES)
    assert_same_hypotheses(hypotheses_of(searcher, SOURCES), expected)
    assert_same_hypotheses(hypotheses_of(searcher, [*SOURCES[:3], []], 30), expected[:3])
    assert_same_hypotheses(hypotheses_of(searcher, SOURCES[3:], 0), expected[3:])
    assert searcher.has_alignments == model.has_alignments
    if model.has_alignments:
        source, target = padded(SOURCES, 9), padded([[5, 7, EOS], [6, EOS], [EOS], [9, 3, 4, EOS]])
        weights = model.alignments(source, target)[:, :, :7]  # without the columns that are all padding
        np.testing.assert_allclose(searcher.align(source.numpy(), target.numpy()), weights, atol=1e-5)


def test_int8_stays_close(tmp_path):
    model = make_model("memory", {}, units=64, encoder_units=32, embedding_size=32, init_scale=0.2)
    full = exported(tmp_path, model)
    (tmp_path / "int8").mkdir()
    small = exported(tmp_path / "int8", model, int8=True)
    differences = [
        a[0][1] - b[0][1] for a, b in zip(hypotheses_of(full, SOURCES), hypotheses_of(small, SOURCES), strict=True)
    ]
    assert 0 < np.abs(differences).max() < 0.05
    sizes = [os.path.getsize(tmp_path / folder / "onnx" / "decoder_step.onnx") for folder in ("", "int8")]
    assert sizes[1] < sizes[0] / 2


def test_a_translation_does_not_import_tensorflow(tmp_path):
    run = trained(make_model("memory", {}), max_source_length=5)
    export(run, str(tmp_path / "onnx"))
    program = (
        "import sys; sys.modules['tensorflow'] = sys.modules['keras'] = None  # importing them raises\n"
        "from memattn.onnx import main; main()"
    )
    flags = ["--model", str(tmp_path / "onnx"), "--scores", "--nbest", "2", "--beam_size", "4"]
    lines = ["w0 w1 w2", "w3", "", "w0 w1 w2 w3 w4 w5 w6"]
    result = run_python("-c", program, *flags, input="\n".join(lines))
    expected = list(load_onnx(str(tmp_path / "onnx"), n_best=2, scores=True)(lines[:3], 1))
    assert result.stdout.splitlines()[: len(expected)] == expected
    assert "standard input:4: 7 tokens" in result.stderr


@pytest.mark.slow
def test_an_exported_run_translates_text_as_the_run_does(runs, tmp_path):
    run = load(runs[0][:1], ["decoding.length_penalty=1"])
    export(run, str(tmp_path / "onnx"))
    lines = lines_of(runs[1] / "test.en")
    results = map(json.loads, load_onnx(str(tmp_path / "onnx"), n_best=3, alignment="soft")(lines, 1))
    expected = map(json.loads, translator(run, n_best=3, alignment="soft")(lines, 1))
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.pop("score"), wanted.pop("score"), atol=1e-4)
        np.testing.assert_allclose(result.pop("weights"), wanted.pop("weights"), atol=2e-4)
        assert result == wanted


@pytest.mark.parametrize(
    ("name", "switches", "decoding", "problem"),
    [
        ("mocha", {}, {}, "model.attention.name: mocha is not exported to ONNX; only none, bahdanau, "),
        ("memory", {"encoder": "cgru"}, {}, "model.encoder: only lstm and gru"),
        ("memory", {"encoder": "gru", "decoder": "rnnsearch"}, {}, "model.decoder: only lstm and gru"),
        ("memory", {}, {"coverage_penalty": 0.1}, "decoding.coverage_penalty: is not exported to ONNX"),
    ],
)
def test_models_that_cannot_be_exported_are_refused(tmp_path, name, switches, decoding, problem):
    run = trained(make_model(name, {}, **switches), **decoding)
    with pytest.raises(ConfigError, match=f"^{problem}"):
        export(run, str(tmp_path / "onnx"))
    assert not os.listdir(tmp_path)


def test_a_damaged_export_is_an_error(tmp_path):
    searcher = exported(tmp_path, make_model("none", {}))
    assert not searcher.has_alignments
    (tmp_path / "onnx" / "encoder.onnx").write_bytes(b"cut")
    with pytest.raises(DataError, match="encoder.onnx: ONNX Runtime cannot load it"):
        load_onnx(str(tmp_path / "onnx"))


def test_a_missing_package_is_an_error(monkeypatch):
    for package in ("onnx", "onnxruntime"):
        monkeypatch.setitem(sys.modules, package, None)  # importing it raises
    monkeypatch.delitem(sys.modules, "memattn.onnx_export.export")
    monkeypatch.delattr("memattn.onnx_export.export")
    with pytest.raises(ConfigError, match=r"needs the package onnx, .*: pip install -e '\.\[onnx\]' in the clone"):
        exporter("onnx")
    with pytest.raises(ConfigError, match="model: needs the package onnxruntime;"):
        load_onnx("model")
