"""Principal directions of contexts: the residual variance equals that of an explicit projection."""

import numpy as np
import tensorflow as tf
from helpers.models import make_model, padded
from studies.britz2017.directions import residuals, slots_for

from memattn.data.vocabulary import EOS

SOURCE = padded([[4, 5, 6, 7, 8, EOS], [9, 10, EOS], [5, EOS]]).numpy()


def test_the_residual_variance_is_that_of_the_best_projection():
    model = make_model("bahdanau", {})
    contexts = model.decode_and_read(model.encode(tf.constant(SOURCE)), tf.constant(SOURCE))[1].numpy()
    left = residuals(model, SOURCE, SOURCE, 8)
    for slots in (0, 1, 2, 4):
        missed = total = 0.0
        for own, ids in zip(contexts, SOURCE, strict=True):
            own = own[ids != 0].astype(np.float64)
            _, directions = np.linalg.eigh(own.T @ own)
            best = directions[:, ::-1][:, :slots]
            missed += np.square(own - own @ best @ best.T).sum()
            total += np.square(own).sum()
        np.testing.assert_allclose(left[slots], missed / total, rtol=1e-4, atol=1e-9)
    assert left[0] == 1
    assert (np.diff(left) <= 0).all()
    np.testing.assert_allclose(left[6:], 0, atol=1e-9)  # as many directions as the longest target has steps


def test_contexts_of_a_memory_have_no_more_directions_than_slots():
    model = make_model("memory", {"num_slots": 2})
    for weight in model.attention.weights:
        weight.assign(100 * weight)  # else all steps read nearly the same
    left = residuals(model, SOURCE, SOURCE, 4)
    assert left[1] > 1e-4
    np.testing.assert_allclose(left[2:], 0, atol=1e-9)


def test_the_fewest_slots_with_a_small_residual_variance():
    left = np.array([1.0, 0.4, 0.05, 0.01])
    assert [slots_for(left, tolerance) for tolerance in (1.0, 0.4, 0.1, 0.01, 0.001)] == [0, 1, 2, 3, None]
