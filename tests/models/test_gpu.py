"""Every model runs on a GPU with Keras 3: an emulation of cuDNN accepts all of its batches, with XLA and without."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from helpers import cudnn
from helpers.repository import ROOT
from helpers.runs import NO_STRATEGY, evaluate, replicas

from memattn import config as configs
from memattn.config import Seq2SeqConfig
from memattn.evaluation import styles
from memattn.runs.trained import build_model, load
from memattn.search.searcher import Searcher
from memattn.serving.translator import from_trained
from memattn.sweeps.runs import expand
from memattn.training.step import TrainingStep
from memattn.training.trainer import train

pytestmark = pytest.mark.slow

CONFIGS = sorted(ROOT.glob("configs/*/*.yaml"))
SIZES = {"layers": 1, "units": 8, "encoder_units": 4, "embedding_size": 8}  # widths that luong_dot accepts
SOURCE = np.array([[4, 5, 6, 2], [4, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]], np.int32)  # the last row is padding


@pytest.fixture
def uses(monkeypatch):
    """A list that grows with each call of cuDNN; None under Keras 2."""
    return cudnn.emulate(monkeypatch)


def cases():
    """A small run of the first model of each config; models of the same kind are listed once."""
    cases_by_kind = {}
    for path in CONFIGS:
        config = next(iter(expand(configs.load(str(path), [])).values()))
        model = small(config.model)
        training = dataclasses.replace(config.training, seed=1)
        decoding = dataclasses.replace(config.decoding, beam_size=2, batch_size=len(SOURCE))
        parts = [getattr(model, part, None) for part in ("kind", "encoder", "decoder")]
        kind = (*parts, styles.attention(config)["name"], config.data.source, training.jit_compile)
        small_config = dataclasses.replace(config, model=model, training=training, decoding=decoding)
        cases_by_kind.setdefault(kind, (f"{path.parent.name}/{path.stem}", small_config))
    return [pytest.param(config, id=label) for label, config in cases_by_kind.values()]


def small(model):
    """The settings of a small model of the same kind."""
    if not isinstance(model, Seq2SeqConfig):
        return dataclasses.replace(model, layers=1, units=8, width=min(model.width, 2))
    attention = {**model.attention, **{key: 3 for key in model.attention if key == "num_slots"}}
    return dataclasses.replace(model, **SIZES, attention=attention, spec_augment=0)  # the sources are tokens


def assert_updates_and_decodes(config, strategy):
    """Trains a model for a step and decodes a batch; one row of the batch is padding."""
    with strategy.scope():
        model = build_model(config, 9, {"max_source_length": 4})
        step = TrainingStep(model, config.training, strategy)
    results = step([(SOURCE, SOURCE)] * config.training.accumulate, 0, 0.01).numpy()
    assert np.isfinite(results).all()
    assert results[3] > 0  # the gradient's norm
    hypotheses = Searcher(model, config.decoding)(SOURCE)
    assert np.isfinite(hypotheses.scores[:3, 0]).all()


@pytest.mark.long
@pytest.mark.parametrize("config", cases())
def test_every_kind_of_config_updates_and_decodes(config, uses):
    assert_updates_and_decodes(config, NO_STRATEGY)
    has_lstms = config.model.kind == "seq2seq" and config.model.encoder == "lstm"
    assert uses is None or bool(uses) == has_lstms  # cuDNN does not compute this kind of GRU


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "input_feeding", "jit_compile"),
    [
        pytest.param("memory", True, True, id="memory, XLA"),
        pytest.param("bahdanau", False, True, id="bahdanau, no input feeding, XLA"),
        pytest.param("memory", False, False, id="memory, no input feeding"),
        *(pytest.param(name, True, False, id=name) for name in ("none", "local_m", "mocha")),
    ],
)
def test_every_kind_of_mechanism_updates_on_two_replicas(name, input_feeding, jit_compile, tiny_config, uses):
    """The batch of the second replica consists of padding."""
    changes = {f"model.{key}": size for key, size in SIZES.items()} | {"model.attention": {"name": name}}
    config = tiny_config({**changes, "model.input_feeding": input_feeding, "training.jit_compile": jit_compile})
    strategy = replicas(2)
    with strategy.scope():
        model = build_model(config, 9, {"max_source_length": 4})
        step = TrainingStep(model, config.training, strategy)
    batch = np.pad(SOURCE[:2], [(0, 2), (0, 0)])
    assert np.isfinite(step([(batch, batch)], 0, 0.01).numpy()).all()
    assert uses is None or uses


@pytest.mark.long
@pytest.mark.parametrize("jit_compile", [True, False], ids=["XLA", "graph"])
def test_a_run_trains_evaluates_and_translates(jit_compile, write_config, tmp_path, uses):
    jit = {"training.jit_compile": jit_compile, "decoding.jit_compile": jit_compile}
    # Of 60 pairs, the last batch has 4 rows of padding, of 12 sentences 3.
    config, run_dir = configs.load(write_config({**jit, "training.batch_size": 16}), []), str(tmp_path / "run")
    assert train(config, run_dir, NO_STRATEGY) == 0
    assert np.isfinite(evaluate(run_dir, "decoding.batch_size=5")["bleu"])
    translator = from_trained(load([run_dir], [], None), alignment="hard")
    assert len(list(translator(["1 2", "", "1"], 0))) == 3
    assert uses is None or uses


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_no_variable_of_an_update_has_a_type_that_stays_on_the_cpu_of_a_gpu_machine(precision, tiny_config):
    """TensorFlow keeps int32 variables there, where the functions that XLA compiles for a GPU cannot reach them."""
    config = tiny_config({"training.precision": precision})
    model = build_model(config, 9, {"max_source_length": 4})
    step = TrainingStep(model, config.training, NO_STRATEGY)
    state = step.optimizer.variables
    variables = [*model.variables, *(state() if callable(state) else state), *step.state]
    assert {tf.as_dtype(variable.dtype) for variable in variables} == {tf.float32, tf.int64}


def test_the_emulation_refuses_the_batches_that_cudnn_refuses(monkeypatch):
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
