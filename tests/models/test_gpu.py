"""Models fit a GPU: Keras 3's cuDNN path, emulated on a CPU, takes every batch, inside XLA and outside."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
from helpers import cudnn
from helpers.mechanisms import QUICK_NAMES, SLOW_NAMES
from helpers.repository import ROOT
from helpers.runs import evaluate, replicas

from memattn import config as configs
from memattn.runs import run_folder
from memattn.runs.trained import load
from memattn.search.searcher import Searcher
from memattn.serving.translator import from_trained
from memattn.sweeps.expand import expand
from memattn.training.step import TrainingStep
from memattn.training.trainer import train

pytestmark = pytest.mark.slow

CONFIGS = sorted(ROOT.glob("configs/*/*.yaml"))
SIZES = {"layers": 1, "units": 8, "encoder_units": 4, "embedding_size": 8}  # such as luong_dot can take
SOURCE = np.array([[4, 5, 6, 2], [4, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]], np.int32)  # a row of padding comes last


@pytest.fixture
def uses(monkeypatch):
    """Uses of cuDNN's operation, at least one in each test; None under Keras 2."""
    return cudnn.emulate(monkeypatch)


def cases():
    """One run of each mechanism and kind of each config, with and without input feeding, shrunk; equal ones once.

    The rarer mechanisms are tried with input feeding alone.
    """
    known = {}
    for path in CONFIGS:
        mechanisms = {}
        for one in expand(configs.load(str(path), [])).values():
            mechanisms.setdefault((one.model.kind, one.model.attention["name"]), one)
        for (kind, name), one in mechanisms.items():
            attention = {**one.model.attention, **{key: 3 for key in one.model.attention if key == "num_slots"}}
            only_fed = name in SLOW_NAMES or one.model.decoder == "rnnsearch" or kind != "seq2seq"
            for input_feeding in (True,) if only_fed else (True, False):
                model = dataclasses.replace(one.model, **SIZES, attention=attention, input_feeding=input_feeding)
                training = dataclasses.replace(one.training, seed=1)
                decoding_config = dataclasses.replace(one.decoding, beam_size=2, batch_size=len(SOURCE))
                label = f"{path.parent.name}/{path.stem} {name if kind == 'seq2seq' else kind} {input_feeding=}"
                key = str((model, training.precision, training.jit_compile, decoding_config))
                shrunk = dataclasses.replace(one, model=model, training=training, decoding=decoding_config)
                known.setdefault(key, (label, shrunk))
    return [pytest.param(config, id=label) for label, config in known.values()]


def check(config, strategy):
    """One update and one decoded batch, rows of padding among them."""
    with strategy.scope():
        model = run_folder.build_model(config, 9, 4)
        step = TrainingStep(model, config.training, strategy)
    results = step([(SOURCE, SOURCE)] * config.training.accumulate, 0, 0.01).numpy()
    assert np.isfinite(results).all()
    assert results[3] > 0  # the gradient's norm
    found = Searcher(model, config.decoding)(SOURCE)
    assert np.isfinite(found.scores[:3, 0]).all()


@pytest.mark.parametrize("config", cases())
def test_every_config_updates_and_decodes(config, uses):
    check(config, tf.distribute.get_strategy())
    has_lstms = config.model.kind == "seq2seq" and config.model.encoder == "lstm"
    assert uses is None or bool(uses) == has_lstms  # cuDNN has no GRU of this kind


SWITCHED = [(name, *switches) for name in QUICK_NAMES for switches in itertools.product((True, False), repeat=2)]
FED = [(name, True, False) for name in SLOW_NAMES]


@pytest.mark.parametrize(
    ("name", "input_feeding", "jit_compile"), [one for one in SWITCHED + FED if not one[0].startswith("tfa_")]
)
def test_every_mechanism_updates_on_two_replicas(name, input_feeding, jit_compile, tiny_config, uses):
    """One replica has rows of padding alone."""
    changes = {f"model.{key}": size for key, size in SIZES.items()} | {"model.attention": {"name": name}}
    config = tiny_config({**changes, "model.input_feeding": input_feeding, "training.jit_compile": jit_compile})
    strategy = replicas(2)
    with strategy.scope():
        model = run_folder.build_model(config, 9, 4)
        step = TrainingStep(model, config.training, strategy)
    batch = np.pad(SOURCE[:2], [(0, 2), (0, 0)])
    assert np.isfinite(step([(batch, batch)], 0, 0.01).numpy()).all()
    assert uses is None or uses


@pytest.mark.parametrize("jit_compile", [True, False])
def test_a_run_trains_evaluates_and_translates(jit_compile, write_config, tmp_path, uses):
    jit = {"training.jit_compile": jit_compile, "decoding.jit_compile": jit_compile}
    config = configs.load(write_config({**jit, "training.batch_size": 16}), [])  # 60 pairs: 4 rows are left
    run_dir = str(tmp_path / "run")
    assert train(config, run_dir, tf.distribute.get_strategy()) == 0
    assert np.isfinite(evaluate(run_dir, "decoding.batch_size=5")["bleu"])  # 12 sentences: 3 rows are left
    translator = from_trained(load([run_dir], [], None), alignment="hard")
    assert len(list(translator(["a b", "", "a"], 0))) == 3
    assert uses is None or uses


@pytest.mark.parametrize("go_backwards", [False, True])
def test_the_emulation_computes_what_the_cpu_does(go_backwards, monkeypatch):
    lstm = tf.keras.layers.LSTM(3, return_sequences=True, return_state=True, go_backwards=go_backwards)
    inputs = tf.random.stateless_normal([2, 4, 5], [1, 2])
    mask = tf.constant([[True] * 4, [True, True, False, False]])
    expected = lstm(inputs, mask=mask)
    uses = cudnn.emulate(monkeypatch)
    found = lstm(inputs, mask=mask)
    assert uses is None or uses
    shown = tf.reverse(mask, [1]) if go_backwards else mask  # what it puts out past the end is nobody's
    for one, other in zip(found, expected, strict=True):
        real = tf.cast(shown, tf.float32)[:, :, None] if len(one.shape) == 3 else 1.0
        np.testing.assert_allclose(one * real, other * real, atol=1e-6)


def test_the_emulation_refuses_what_cudnn_does(monkeypatch):
    if cudnn.emulate(monkeypatch) is None:
        pytest.skip("Keras 2 takes its ordinary kernel where cuDNN refuses")
    lstm = tf.keras.layers.LSTM(3)
    inputs = tf.ones([2, 4, 5])
    lstm.build(inputs.shape)
    masked = tf.function(lambda mask: lstm(inputs, mask=mask))
    masked(tf.constant([[True] * 4, [True] + [False] * 3]))
    for refused in ([[True] * 4, [False] * 4], [[True] * 4, [False] + [True] * 3]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="right-padded"):
            masked(tf.constant(refused))
    with pytest.raises(tf.errors.InvalidArgumentError, match="unsupported operations|not compilable"):
        tf.function(lstm, jit_compile=True)(inputs)
