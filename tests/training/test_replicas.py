"""Training on two replicas, or compiled by XLA, equals training on one device in graph mode."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.models import padded
from helpers.runs import NO_STRATEGY, replicas, weights
from helpers.updates import BATCH, three_updates

from memattn.data.vocabulary import EOS
from memattn.runs import run_folder
from memattn.runs.trained import load
from memattn.training.trainer import train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("rows", [4, 1])
def test_two_replicas_match_one(rows):
    strategy, batch = replicas(2), BATCH[-rows:]
    assert strategy.num_replicas_in_sync == 2
    (single, alone), (mirrored, together) = three_updates(NO_STRATEGY, batch), three_updates(strategy, batch)
    np.testing.assert_allclose(alone, together, rtol=1e-4)
    for one, other in zip(single.trainable_variables, mirrored.trainable_variables, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(one), tf.convert_to_tensor(other), rtol=1e-3, atol=1e-4)


def test_a_run_on_two_replicas_matches_one(tiny_config, tmp_path):
    config = tiny_config({"model.dropout": 0.0, "training.validate_every": 6})
    runs = {"one": NO_STRATEGY, "two": replicas(2)}
    for name, strategy in runs.items():
        assert train(config, str(tmp_path / name), strategy) == 0
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert one.keys() == two.keys()
    for name in one:
        if name.startswith("model"):
            np.testing.assert_allclose(one[name], two[name], rtol=1e-2, atol=1e-4, err_msg=name)
    ids = padded([[4, 5, 6, EOS], [7, EOS]])
    logits = [load([str(tmp_path / name)], [], None).model(ids, ids) for name in runs]  # as evaluation loads them
    np.testing.assert_allclose(*logits, rtol=1e-2, atol=1e-3)
    assert np.abs(logits[1] - run_folder.build_model(config, 8, 6)(ids, ids)).max() > 0.01  # they have learned


def test_xla_and_graph_train_alike(tiny_config, tmp_path):
    for jit in (True, False):
        config = tiny_config({"training.jit_compile": jit, "decoding.jit_compile": jit, "model.dropout": 0.0})
        assert train(config, str(tmp_path / str(jit)), NO_STRATEGY) == 0
    one, other = weights(tmp_path / "True"), weights(tmp_path / "False")
    for name in one:
        if name.startswith("model"):
            np.testing.assert_allclose(one[name], other[name], rtol=1e-2, atol=1e-3, err_msg=name)
