"""What kinds of models differ in: alignments, precision of an ensemble, configs, lengths of the memory."""

import dataclasses
import inspect
import json

import numpy as np
import pytest
import tensorflow as tf
from helpers.models import SOURCES, padded
from helpers.models import make_model as make_seq2seq
from helpers.neural_gpu import make_model as make_neural_gpu

from memattn.config import DecodingConfig
from memattn.data.vocabulary import EOS
from memattn.models.ensemble import Ensemble
from memattn.models.interface import aligns
from memattn.search.searcher import Searcher


def test_models_with_attention_align_and_an_ensemble_does_if_all_of_its_models_do():
    bahdanau, none, neural_gpu = make_seq2seq("bahdanau", {}), make_seq2seq("none", {}), make_neural_gpu("extended")
    assert [aligns(model) for model in (bahdanau, none, neural_gpu)] == [True, False, False]
    assert aligns(Ensemble([bahdanau, bahdanau]))
    assert not aligns(Ensemble([bahdanau, none]))


def test_an_ensemble_of_models_of_different_precision_averages_their_weights_in_float32():
    models = [make_seq2seq("bahdanau", {}, dtype=dtype) for dtype in ("float32", "mixed_bfloat16")]
    source, target = padded(SOURCES), padded([[4, 5, EOS]] * len(SOURCES))
    weights = [tf.cast(model.alignments(source, target), tf.float32) for model in models]
    averages = Ensemble(models).alignments(source, target)
    assert averages.dtype == tf.float32
    np.testing.assert_allclose(averages, (weights[0] + weights[1]) / 2, rtol=1e-6)
    Searcher(Ensemble(models), DecodingConfig(beam_size=2, max_length=3, coverage_penalty=0.2, jit_compile=False))(
        source.numpy()
    )


SEQ2SEQ_SWITCHES = [
    {},
    {"encoder": "gru", "decoder": "gru", "bridge": "dense"},
    {"encoder": "cgru", "decoder": "rnnsearch", "bridge": "dense"},
    {"decoder": "rnnsearch", "bridge": "backward", "source_features": 5},
]
MODELS = [
    *(lambda switches=switches: make_seq2seq("bahdanau", {}, **switches) for switches in SEQ2SEQ_SWITCHES),
    *(
        lambda kind=kind, cell=cell: make_neural_gpu(kind, cell)
        for kind, cell in (("neural_gpu", "cgru"), ("markovian", "dngpu"), ("extended", "cgru"))
    ),
]


@pytest.mark.parametrize("make", MODELS)
def test_the_config_of_a_model_and_of_each_of_its_layers_has_all_arguments_of_their_constructors(make):
    """A model's dataclass of options stands in its config as its fields."""
    layers = [layer for layer in make()._flatten_layers() if type(layer).__module__.startswith("memattn")]
    assert layers
    for layer in layers:
        arguments = {
            name
            for kind in type(layer).__mro__
            if kind.__module__.startswith("memattn") and "__init__" in vars(kind)
            for name, parameter in inspect.signature(kind.__init__).parameters.items()
            if name != "self" and parameter.kind is not parameter.VAR_KEYWORD
        }
        if "config" in arguments:
            arguments = arguments - {"config"} | {field.name for field in dataclasses.fields(layer.config)}
        assert arguments <= layer.get_config().keys(), type(layer).__name__


@pytest.mark.parametrize("kind", ["neural_gpu", "markovian", "extended"])
def test_a_model_from_the_config_of_another_predicts_the_same_length_of_its_memory(kind):
    model, source = make_neural_gpu(kind), padded([[4, 5, EOS], [EOS]])
    model.memory_intercept, model.memory_slope = 1.5, 1.25
    copy = type(model).from_config(json.loads(json.dumps(model.get_config())))
    lengths = [next(iter(each.memory_lengths(each.encode(source), "estimate"))) for each in (model, copy)]
    assert lengths[0].max_steps.numpy().tolist() == lengths[1].max_steps.numpy().tolist() == [6, 3]
