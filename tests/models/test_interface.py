"""Every kind of model has the methods that training and decoding call."""

import pytest
from helpers.models import make_model as make_seq2seq
from helpers.neural_gpu import make_model as make_neural_gpu

from memattn.models.ensemble import Ensemble
from memattn.models.interface import AligningModel, DecodingModel, Model, aligns


@pytest.mark.parametrize("kind", ["neural_gpu", "markovian", "extended"])
def test_neural_gpus_are_models_without_alignments(kind):
    model = make_neural_gpu(kind)
    assert isinstance(model, Model)
    assert not isinstance(model, AligningModel)
    assert not model.has_alignments
    assert not aligns(model)
    assert not aligns(Ensemble([model]))


def test_sequence_to_sequence_models_align():
    model = make_seq2seq("bahdanau", {})
    assert isinstance(model, Model)
    assert isinstance(model, AligningModel)
    assert aligns(model)
    assert not aligns(make_seq2seq("none", {}))


def test_an_ensemble_decodes_and_does_not_train():
    ensemble = Ensemble([make_seq2seq("bahdanau", {}), make_seq2seq("bahdanau", {})])
    assert isinstance(ensemble, DecodingModel)
    assert isinstance(ensemble, AligningModel)
    assert aligns(ensemble)
    assert not isinstance(ensemble, Model)
