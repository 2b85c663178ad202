"""Whether an ensemble aligns, and the precision of its weights; tests of search and serving decode with ensembles."""

import numpy as np
import tensorflow as tf
from helpers.models import SOURCES, make_model, padded
from helpers.neural_gpu import make_model as make_neural_gpu

from memattn.config import DecodingConfig
from memattn.data.vocabulary import EOS
from memattn.models.ensemble import Ensemble
from memattn.models.interface import aligns
from memattn.search.searcher import Searcher


def test_models_with_attention_align_and_an_ensemble_does_if_all_of_its_models_do():
    bahdanau, none, neural_gpu = make_model("bahdanau", {}), make_model("none", {}), make_neural_gpu("extended")
    assert [aligns(model) for model in (bahdanau, none, neural_gpu)] == [True, False, False]
    assert aligns(Ensemble([bahdanau, bahdanau]))
    assert not aligns(Ensemble([bahdanau, none]))


def test_an_ensemble_of_models_of_different_precision_averages_their_weights_in_float32():
    models = [make_model("bahdanau", {}, dtype=dtype) for dtype in ("float32", "mixed_bfloat16")]
    source, target = padded(SOURCES), padded([[4, 5, EOS]] * len(SOURCES))
    weights = [tf.cast(model.alignments(source, target), tf.float32) for model in models]
    averages = Ensemble(models).alignments(source, target)
    assert averages.dtype == tf.float32
    np.testing.assert_allclose(averages, (weights[0] + weights[1]) / 2, rtol=1e-6)
    config = DecodingConfig(beam_size=2, max_length=3, coverage_penalty=0.2, jit_compile=False)
    Searcher(Ensemble(models), config)(source.numpy())
