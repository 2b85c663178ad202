"""Attention mechanisms of tensorflow-addons behind memattn's interface, as a reference for its mechanisms.

Import it only where the extra `addons` is installed.
"""

import warnings

import tensorflow as tf

from memattn.attention.base import AttentionMechanism
from memattn.attention.configured import Initializer, initializer_of
from memattn.options import PositiveInt

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the library warns that its development has ended
    import tensorflow_addons as tfa


@tf.keras.utils.register_keras_serializable("tests")
class AddonsBahdanauAttention(AttentionMechanism):
    """`tfa.seq2seq.BahdanauAttention`: the additive score, without a bias.

    This is slow: the library's layer holds one memory per query. So every step repeats the states for every query, and
    projects them to keys again.

    Args:
      units: width U of keys, projected queries and v.
      initializer: name, config or object, of the weight matrices and v.
    """

    def __init__(self, *, units: PositiveInt, initializer: Initializer = "glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.units, self.initializer = int(units), initializer
        self.mechanism = self._make_mechanism()

    def _make_mechanism(self) -> tf.keras.layers.Layer:
        return tfa.seq2seq.BahdanauAttention(
            self.units,
            query_layer=self.make_dense(self.units, "query"),
            memory_layer=self.make_dense(self.units, "key"),
            kernel_initializer=tf.keras.initializers.get(initializer_of("v", self.initializer)),
        )

    def memorize(self, states, mask):
        return {"values": states, "mask": mask}

    def score(self, query, memory, state=(), seed=None):
        values, mask = memory["values"], memory["mask"]
        batch, queries, length = tf.shape(query)[0], tf.shape(query)[1], tf.shape(values)[1]
        self.mechanism.setup_memory(tf.repeat(values, queries, 0), memory_mask=tf.repeat(mask, queries, 0))
        rows = tf.reshape(query, [-1, query.shape[-1]])
        alignments, _ = self.mechanism([rows, tf.zeros([batch * queries, length], query.dtype)])  # [B * Q, S]
        weights = tf.reshape(alignments, [batch, queries, length])
        return weights * tf.cast(mask, weights.dtype)[:, None], state


@tf.keras.utils.register_keras_serializable("tests")
class AddonsLuongAttention(AddonsBahdanauAttention):
    """`tfa.seq2seq.LuongAttention`: the bilinear score.

    Args:
      units: width U of the queries, to which the encoder states are projected.
      initializer: name, config or object, of the projection.
    """

    def _make_mechanism(self):
        return tfa.seq2seq.LuongAttention(self.units, memory_layer=self.make_dense(self.units, "key"))
