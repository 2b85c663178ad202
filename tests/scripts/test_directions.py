"""Principal directions of contexts: the residual variance equals that of an explicit projection."""

import numpy as np
import tensorflow as tf
from helpers.models import make_model, padded
from studies.britz2017.future_work import residual_variances, slots_for

from memattn.data.vocabulary import EOS

SOURCE = padded([[4, 5, 6, 7, 8, EOS], [9, 10, EOS], [5, EOS]]).numpy()


def test_the_residual_variance_equals_that_of_the_best_projection():
    model = make_model("bahdanau", {})
    encoded = model.encode(tf.constant(SOURCE))
    contexts = model.teacher_forced_logits_and_contexts(encoded, tf.constant(SOURCE))[1].numpy()
    variances = residual_variances(model, SOURCE, SOURCE, 8)
    for slots in (0, 1, 2, 4):
        residual = total = 0.0
        for contexts_of_sentence, ids in zip(contexts, SOURCE, strict=True):
            x = contexts_of_sentence[ids != 0].astype(np.float64)  # [T, D]
            _, directions = np.linalg.eigh(x.T @ x)
            principal = directions[:, ::-1][:, :slots]  # [D, slots]
            residual += np.square(x - x @ principal @ principal.T).sum()
            total += np.square(x).sum()
        np.testing.assert_allclose(variances[slots], residual / total, rtol=1e-4, atol=1e-9)
    assert variances[0] == 1
    assert (np.diff(variances) <= 0).all()
    np.testing.assert_allclose(variances[6:], 0, atol=1e-9)  # as many directions as the longest target has steps


def test_contexts_of_a_memory_have_no_more_directions_than_slots():
    model = make_model("memory", {"num_slots": 2})
    for weight in model.attention.weights:
        weight.assign(100 * weight)  # with small weights, the contexts of all steps are nearly equal
    variances = residual_variances(model, SOURCE, SOURCE, 4)
    assert variances[1] > 1e-4
    np.testing.assert_allclose(variances[2:], 0, atol=1e-9)


def test_slots_for_a_tolerance_are_the_fewest_whose_residual_variance_is_within():
    variances = np.array([1.0, 0.4, 0.05, 0.01])
    slots = [slots_for(variances, tolerance) for tolerance in (1.0, 0.4, 0.1, 0.01, 0.001)]
    assert slots == [0, 1, 2, 3, None]
