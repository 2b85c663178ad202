"""Every model runs on a GPU with Keras 3: an emulation of cuDNN accepts all of its batches, with XLA and without."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from helpers import cudnn
from helpers.repository import ROOT
from helpers.runs import NO_STRATEGY, evaluate

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

SIZES = {"layers": 1, "units": 8, "encoder_units": 4, "embedding_size": 8}  # widths that luong_dot accepts
SOURCE = np.array([[4, 5, 6, 2], [4, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]], np.int32)  # the last row is padding


@pytest.fixture
def uses(monkeypatch):
    """A list that grows with each call of cuDNN; None under Keras 2."""
    return cudnn.emulate(monkeypatch)


def small_configs():
    """A small run of the first model of each config, by its path; models of the same kind are listed once."""
    configs_by_kind = {}
    for path in sorted(ROOT.glob("configs/*/*.yaml")):
        config = next(iter(expand(configs.load(str(path), [])).values()))
        parts = [getattr(config.model, part, None) for part in ("kind", "encoder", "decoder")]
        kind = (*parts, styles.attention(config)["name"], config.data.source, config.training.jit_compile)
        training = dataclasses.replace(config.training, seed=1)
        decoding = dataclasses.replace(config.decoding, beam_size=2, batch_size=len(SOURCE))
        small = dataclasses.replace(config, model=small_model(config.model), training=training, decoding=decoding)
        configs_by_kind.setdefault(kind, (path, small))
    return configs_by_kind.values()


def small_model(model):
    """The settings of a small model of the same kind."""
    if not isinstance(model, Seq2SeqConfig):
        return dataclasses.replace(model, layers=1, units=8, width=min(model.width, 2))
    attention = {**model.attention, **{key: 3 for key in model.attention if key == "num_slots"}}
    return dataclasses.replace(model, **SIZES, attention=attention, spec_augment=0)  # the sources are tokens


@pytest.mark.long
def test_every_kind_of_config_updates_and_decodes(uses):
    """One row of the batch is padding."""
    for path, config in small_configs():
        model = build_model(config, 9, {"max_source_length": 4})
        step = TrainingStep(model, config.training, NO_STRATEGY)
        results = step([(SOURCE, SOURCE)] * config.training.accumulate, 0, 0.01).numpy()
        assert np.isfinite(results).all(), path
        assert results[3] > 0, path  # the gradient's norm
        assert np.isfinite(Searcher(model, config.decoding)(SOURCE).scores[:3, 0]).all(), path
        if uses is not None:
            has_lstms = config.model.kind == "seq2seq" and config.model.encoder == "lstm"
            assert bool(uses) == has_lstms, path  # cuDNN does not compute this kind of GRU
            uses.clear()


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
