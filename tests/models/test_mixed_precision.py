"""Models train and decode in mixed precision, with logits close to those in float32; some for each kind of model."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from helpers import neural_gpu
from helpers.marks import long
from helpers.mechanisms import RNNSEARCH
from helpers.models import SOURCES, V, arrays, assert_close_to_full_precision, make_model, padded, search, searcher
from helpers.runs import NO_STRATEGY

from memattn.config import TrainingConfig
from memattn.data.vocabulary import EOS
from memattn.models.neural_gpu import KINDS
from memattn.runs.checkpoints import named_weights, tensorflow_variable
from memattn.training.step import TrainingStep

pytestmark = pytest.mark.slow

PRECISIONS = ("mixed_float16", "mixed_bfloat16")
MODEL_KINDS = {
    "lstm": lambda **options: make_model("memory", {"num_slots": 2}, **options),
    "tied": lambda **options: make_model("bahdanau", {}, tie_embeddings="all", **options),
    "gru": lambda **options: make_model("bahdanau", {}, encoder="gru", decoder="gru", **options),
    "cgru": lambda **options: make_model("bahdanau", {}, encoder="cgru", bridge="dense", **options),
    "rnnsearch": lambda **options: make_model("bahdanau", {}, **RNNSEARCH, **options),
    **{kind: functools.partial(neural_gpu.make_model, kind, vocabulary_size=V) for kind in KINDS},
}


@pytest.mark.long
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_a_model_computes_in_mixed_precision(kind, precision):
    assert_close_to_full_precision(MODEL_KINDS[kind](dtype=precision))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    ("kind", "cell"), [("neural_gpu", "cgru"), long("markovian", "cgru"), long("extended", "dngpu")]
)
def test_a_neural_gpu_trains_and_decodes(kind, cell, precision):
    """Two training steps change all weights, which stay in float32."""
    model = neural_gpu.make_model(kind, cell, vocabulary_size=V, dropout=0.1, dtype=precision)
    before, batch = arrays(model), padded([*SOURCES, []]).numpy()
    step = TrainingStep(model, TrainingConfig(batch_size=5, jit_compile=False, precision=precision), NO_STRATEGY)
    if precision == "mixed_float16":
        step.state[0].assign(2.0**8)  # no gradient overflows
    for update in range(2):
        assert np.isfinite(step([(batch, batch)], update, 0.01)).all()
    assert {weight.dtype for weight in arrays(model)} == {np.dtype("float32")}
    assert all((old != new).any() for old, new in zip(before, arrays(model), strict=True))
    assert [len(row) for row in search(model, SOURCES, width=7, beam_size=2)] == [2] * len(SOURCES)
    searcher.cache_clear()


@pytest.mark.parametrize(
    ("kind", "precision"), [*((kind, "mixed_float16") for kind in MODEL_KINDS), ("lstm", "mixed_bfloat16")]
)
def test_the_gradients_of_embeddings_and_output_bias_count_every_token(kind, precision):
    """In half precision, a sum of equal numbers stops at 256 or 2,048 of them: 1 more is less than half a unit."""
    gradients = _token_gradients(MODEL_KINDS[kind](dtype=precision))
    row = np.array([[4, 5, 4, EOS]], np.int32)
    single, repeated = (gradients(np.repeat(row, rows, 0)) for rows in (1, 4096))
    assert {"bias", "embeddings"} <= {path.split("/")[-1].split("_")[-1] for path in single}
    for path, gradient in single.items():
        atol = 0.05 * np.abs(gradient).max()
        np.testing.assert_allclose(repeated[path], gradient, atol=atol, err_msg=path)


def _token_gradients(model):
    """A function that returns mean gradients over rows, by path: of each embedding, and of the output layer's bias."""
    weights = {
        path: weight
        for path, weight in named_weights(model).items()
        if path.endswith("embeddings") or path.startswith("output") and path.endswith("bias")
    }

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.int32)], autograph=False)  # which sums as in training
    def gradients(batch):
        with tf.GradientTape() as tape:
            logits = tf.cast(model(batch, batch), tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch, logits)
            loss = tf.reduce_mean(losses) * 2**12  # as in float16
        values = tape.gradient(loss, [tensorflow_variable(weight) for weight in weights.values()])
        return dict(zip(weights, map(tf.convert_to_tensor, values), strict=True))

    return gradients
