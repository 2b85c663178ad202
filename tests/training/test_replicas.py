"""Training on two replicas, or compiled by XLA, equals training on a single device in graph mode."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import neural_gpu
from helpers.models import BATCH, SECOND_BATCH, arrays, padded, three_updates
from helpers.runs import NO_STRATEGY, assert_close_weights, replicas

from memattn.config import TrainingConfig
from memattn.data.vocabulary import EOS
from memattn.runs.trained import build_model, load
from memattn.training.step import TrainingStep
from memattn.training.trainer import train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("batches", "changes", "tolerance"),
    [
        pytest.param([BATCH[-1:]], {}, 1e-4, id="the second replica has only padding"),
        pytest.param([BATCH], {"jit_compile": True}, 1e-4, id="XLA", marks=pytest.mark.long),
        pytest.param([BATCH, SECOND_BATCH], {}, 1e-4, id="accumulated", marks=pytest.mark.long),
        pytest.param([BATCH], {"precision": "mixed_float16"}, 1e-2, id="float16", marks=pytest.mark.long),
    ],
)
def test_updates_on_two_replicas_equal_those_on_one_device_without_xla(batches, changes, tolerance):
    strategy = replicas(2)
    assert strategy.num_replicas_in_sync == 2
    expected = three_updates(batches, **{**changes, "jit_compile": False})
    np.testing.assert_allclose(three_updates(batches, strategy, **changes), expected, rtol=tolerance)
    assert expected[-1].gradient_norm > 0


def test_a_run_on_two_replicas_equals_a_run_on_one_device(tiny_config, tmp_path):
    config = tiny_config({"model.dropout": 0.0, "training.validate_every": 6})
    runs = {"single": NO_STRATEGY, "mirrored": replicas(2)}
    for name, strategy in runs.items():
        assert train(config, str(tmp_path / name), strategy) == 0
    assert_close_weights(tmp_path / "single", tmp_path / "mirrored", rtol=1e-2)
    ids = padded([[4, 5, 6, EOS], [7, EOS]])
    logits = [load([str(tmp_path / name)], [], None).model(ids, ids) for name in runs]  # as evaluation loads them
    np.testing.assert_allclose(*logits, rtol=1e-2, atol=1e-3)
    initial = build_model(config, 8, {"max_source_length": 6})
    assert np.abs(logits[1] - initial(ids, ids)).max() > 0.01  # they have learned


def test_the_diagonal_cell_has_the_same_gradient_on_two_replicas_and_with_padding():
    """The kernels are large, so that many sums are saturated. The short rows go to the second replica."""
    rows = padded([[4, 5, 6, 7, EOS], [8, 4, 7, 5, EOS], [6, EOS], [EOS]]).numpy()
    expected = _change(NO_STRATEGY, rows)
    for strategy, padding in ((replicas(2), 0), (NO_STRATEGY, 4)):
        for change, wanted in zip(_change(strategy, np.pad(rows, [(0, 0), (0, padding)])), expected, strict=True):
            np.testing.assert_allclose(change, wanted, atol=1e-5 * np.abs(wanted).max())


def _change(strategy, batch):
    """Returns the change of each weight by an update of gradient descent with rate 1."""
    with strategy.scope():
        model = neural_gpu.make_model("neural_gpu", "dngpu", width=1)
        config = TrainingConfig(batch_size=4, jit_compile=False, clip_norm=1e9, optimizer="sgd")
        step = TrainingStep(model, config, strategy)
    for weight in model.trainable_variables:
        weight.assign(np.array(tf.convert_to_tensor(weight)) * 6)
    before = arrays(model)
    step([(batch, batch)], 0, 1.0)
    return [old - new for old, new in zip(before, arrays(model), strict=True)]
