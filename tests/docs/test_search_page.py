"""The Transformer decoder of docs/reference/, with a cache, is searched and sampled."""

import runpy

import numpy as np
import pytest
import tensorflow as tf
from helpers.repository import ROOT

pytestmark = pytest.mark.slow


def forward(decoder, states, mask, ids):
    """Computes logits [T, V] of the page's Transformer for all positions of a target [T] at once; `states` [S, D]."""
    (query, key, value, output), heads = decoder.to_tokens, 4

    def attend(q, k, v, allowed):
        q, k, v = (tf.transpose(tf.reshape(x, [x.shape[0], heads, -1]), [1, 0, 2]) for x in (q, k, v))
        scores = tf.matmul(q, k, transpose_b=True) / q.shape[-1] ** 0.5
        contexts = tf.matmul(tf.nn.softmax(tf.where(allowed, scores, -1e9)), v)
        return tf.reshape(tf.transpose(contexts, [1, 0, 2]), [-1, decoder.embedding.output_dim])

    x = decoder.embedding(ids) + decoder.positions(tf.range(len(ids)))
    normed = decoder.norms[0](x)
    causal = tf.linalg.band_part(tf.ones([len(ids), len(ids)], tf.bool), -1, 0)
    x += output(attend(query(normed), key(normed), value(normed), causal))
    query, key, value, output = decoder.to_source
    x += output(attend(query(decoder.norms[1](x)), key(states), value(states), mask[None]))
    x += decoder.narrow(decoder.wide(decoder.norms[2](x)))
    return decoder.output(decoder.norms[3](x))


def test_scores_of_searched_and_sampled_hypotheses_equal_those_without_a_cache():
    tf.keras.utils.set_random_seed(3)
    names = runpy.run_path(str(ROOT / "docs/reference/transformer_search.py"))
    for hypotheses, penalty in ((names["hypotheses"], 0.6), (names["samples"], 0.0)):
        for row in range(2):
            fields = (hypotheses.tokens, hypotheses.lengths, hypotheses.scores)
            for tokens, length, score in zip(*(field[row] for field in fields), strict=True):
                target = tokens.numpy()[: length.numpy() + 1]  # with the end of sentence, where there is any
                ids = np.concatenate([[names["START"]], target[:-1]])
                logits = forward(names["decoder"], names["states"][row], names["mask"][row], tf.constant(ids))
                log_probability = tf.reduce_sum(tf.gather(tf.nn.log_softmax(logits), target, batch_dims=1))
                expected = log_probability / ((5 + length.numpy()) / 6) ** penalty
                np.testing.assert_allclose(score, expected, rtol=1e-4)
