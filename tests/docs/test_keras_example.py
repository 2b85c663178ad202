"""The example for keras.io has that site's form, runs, and computes what the package's layer does."""

import keras
import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers.repository import ROOT

from memattn import SlotMemory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(keras.__version__ < "3", reason="the example is for Keras 3"),
]
TEXT = (ROOT / "docs/keras_example/cross_attention_over_slots.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def names():
    """The names that the example defines, run with few examples and without XLA, which compiles for long."""
    text = TEXT
    changes = {
        "epochs = 10\n": "epochs = 1\n",
        "(12_800)": "(64)",
        "(500)": "(8)",
        "model.compile(\n": "model.compile(jit_compile=False,\n",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    namespace = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plt, "show", plt.close)
        exec(text, namespace)
    return namespace


def test_the_models_of_the_example_train(names):
    assert set(names["models"]) == {"all states", "10 slots"}
    assert np.isfinite(names["history"]["val_loss"]).all()


def test_padding_changes_no_model_of_the_example(names):
    tokens = names["make_examples"](4)[1][:, :20]  # of these, none is padding
    padded = np.pad(tokens, [(0, 0), (0, 7)])
    for model in names["models"].values():
        expected = model({"source": tokens, "target": tokens})
        np.testing.assert_allclose(model({"source": padded, "target": tokens}), expected, atol=1e-4)


def test_the_slots_of_the_example_are_those_of_the_package(names):
    states = np.random.default_rng(1).normal(size=(3, 12, 8)).astype(np.float32)
    mask = np.arange(12) < np.array([[12], [7], [2]])
    layer, expected = names["SlotMemory"](5), SlotMemory(5)
    layer(states)
    expected(states)
    layer.set_weights(expected.get_weights())
    np.testing.assert_allclose(layer(states, mask=mask), expected(states, mask=mask), rtol=1e-5, atol=1e-6)
